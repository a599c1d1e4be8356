//! How values on the host are written: rows and columns, aligned as NumPy aligns them.

use std::fmt;

use crate::dtype::Element;
use crate::host::HostArray;

/// Longer axes show so many elements of each end, unless all are asked for.
const ENDS: usize = 6;

/// What the elements of an array look like: the formatter's digits and sign, and one width for all that are shown.
struct Style {
    all: bool,
    precision: Option<usize>,
    plus: bool,
    /// Before the decimal point, and from there on.
    left: usize,
    right: usize,
}

impl Style {
    /// The style of a formatter, with the widths that the elements need. `all` shows every element.
    fn of<T: Element>(array: &HostArray<T>, f: &fmt::Formatter<'_>, all: bool) -> Self {
        let mut style = Self { all, precision: f.precision(), plus: f.sign_plus(), left: 0, right: 0 };
        let (mut left, mut right, mut whole) = (0, 0, f.width().unwrap_or(0));
        style.each(array.shape(), 0, 0, &mut |at| {
            let text = style.text(array.as_slice()[at]);
            match point(&text) {
                Some(point) => (left, right) = (left.max(point), right.max(text.len() - point)),
                None => whole = whole.max(text.len()),
            }
        });
        style.left = left.max(whole.saturating_sub(right));
        style.right = right;
        style
    }

    fn text<T: Element>(&self, value: T) -> String {
        match (self.precision, self.plus) {
            (None, false) => format!("{value:?}"),
            (None, true) => format!("{value:+?}"),
            (Some(digits), false) => format!("{value:.digits$?}"),
            (Some(digits), true) => format!("{value:+.digits$?}"),
        }
    }

    /// Which elements of an axis are shown: those before the first number, and those from the second on.
    fn ends(&self, len: usize) -> (usize, usize) {
        if self.all || len <= 2 * ENDS { (len, len) } else { (ENDS, len - ENDS) }
    }

    /// Calls `each` with the place of every element that is shown.
    fn each(&self, shape: &[usize], axis: usize, base: usize, each: &mut impl FnMut(usize)) {
        let Some(&len) = shape.get(axis) else { return each(base) };
        let inner = shape[axis + 1..].iter().product::<usize>();
        let (head, tail) = self.ends(len);
        for i in (0..head).chain(tail..len) {
            self.each(shape, axis + 1, base + i * inner, each);
        }
    }

    fn write<T: Element>(
        &self,
        array: &HostArray<T>,
        f: &mut fmt::Formatter<'_>,
        axis: usize,
        base: usize,
    ) -> fmt::Result {
        let shape = array.shape();
        let Some(&len) = shape.get(axis) else { return self.element(array.as_slice()[base], f) };
        let inner = shape[axis + 1..].iter().product::<usize>();
        let within = shape.len() - axis - 1;
        let next = |f: &mut fmt::Formatter<'_>| match within {
            0 => f.write_str(", "),
            // A line further for each axis within, so that matrices have an empty line between them.
            lines => write!(f, ",{}{:2$}", "\n".repeat(lines), "", axis + 1),
        };
        let (head, tail) = self.ends(len);
        f.write_str("[")?;
        for i in (0..head).chain(tail..len) {
            if i > 0 {
                next(f)?;
            }
            if i == tail {
                f.write_str("...")?;
                next(f)?;
            }
            self.write(array, f, axis + 1, base + i * inner)?;
        }
        f.write_str("]")
    }

    fn element<T: Element>(&self, value: T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text(value);
        match point(&text) {
            Some(point) => write!(f, "{:>2$}{:3$}", &text[..point], &text[point..], self.left, self.right),
            None => write!(f, "{text:>0$}", self.left + self.right),
        }
    }
}

/// Where a number's decimal point is, or its exponent or end; `None` for what is no number.
fn point(text: &str) -> Option<usize> {
    let digits = text.trim_start_matches(['-', '+']);
    digits.starts_with(|c: char| c.is_ascii_digit()).then(|| text.find(['.', 'e']).unwrap_or(text.len()))
}

fn write<T: Element>(array: &HostArray<T>, f: &mut fmt::Formatter<'_>, all: bool) -> fmt::Result {
    if array.as_slice().is_empty() {
        return f.write_str("[]");
    }
    Style::of(array, f, all).write(array, f, 0, 0)
}

impl<T: Element> fmt::Display for HostArray<T> {
    /// The values; of long axes the ends, and with `{:#}` all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, f, f.alternate())?;
        match self.lens() {
            lens if self.as_slice().is_empty() && lens.ndim() > 1 => write!(f, ", shape {lens}"),
            _ => Ok(()),
        }
    }
}

impl<T: Element> fmt::Debug for HostArray<T> {
    /// Type, shape, and the values as `{}` has them: `{:#?}` is how programs show structures, which may hold large
    /// arrays.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HostArray<{}> {}", T::DTYPE, self.lens())?;
        write(self, f, false)
    }
}
