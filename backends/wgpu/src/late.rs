//! When the errors that scopes caught are known: at once natively, later in a browser.
//!
//! What enters: futures of error scopes. What leaves: their error, from the call itself where it is known by then, or
//! from the next reads, which wait for it.

#[cfg(target_arch = "wasm32")]
pub(crate) use browser::Late;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::Late;

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use kiln_array::{Error, Result};

    /// Nothing is late.
    #[derive(Default)]
    pub(crate) struct Late;

    impl Late {
        /// The error, which is known.
        pub(crate) fn expect(&self, outcome: impl Future<Output = Option<Error>>) -> Result<()> {
            match pin!(outcome).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(error)) => Err(error),
                Poll::Ready(None) | Poll::Pending => Ok(()),
            }
        }

        /// Ready.
        pub(crate) fn settle(&self, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod browser {
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use kiln_array::{Error, Result};

    use crate::error::lock;

    /// Errors on their way.
    #[derive(Default)]
    pub(crate) struct Late {
        state: Mutex<State>,
    }

    #[derive(Default)]
    struct State {
        expected: Vec<Pin<Box<dyn Future<Output = Option<Error>>>>>,
        /// The first one. Every later read returns it, since nobody knows by then which buffers are wrong.
        failed: Option<Error>,
        waiting: Vec<Waker>,
    }

    impl Late {
        /// No error yet.
        pub(crate) fn expect(&self, outcome: impl Future<Output = Option<Error>> + 'static) -> Result<()> {
            lock(&self.state).expected.push(Box::pin(outcome));
            Ok(())
        }

        /// Ready once all errors of earlier calls are known.
        pub(crate) fn settle(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
            let mut state = lock(&self.state);
            let State { expected, failed, waiting } = &mut *state;
            let before = expected.len();
            expected.retain_mut(|outcome| match outcome.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(error) => {
                    *failed = failed.take().or(error);
                    false
                }
            });
            // A future wakes only the task that polled it last: pass progress on to the others.
            if expected.len() < before {
                waiting.drain(..).for_each(Waker::wake);
            }
            match failed {
                Some(error) => Poll::Ready(Err(error.clone())),
                None if expected.is_empty() => Poll::Ready(Ok(())),
                None => {
                    waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        }
    }
}
