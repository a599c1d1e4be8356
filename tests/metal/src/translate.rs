//! MSL becomes C++.
//!
//! The stand-in for `metal_stdlib` makes address spaces vanish and gives types and functions; attributes are unknown to
//! a C++ compiler, which ignores them. What is left to edit: swizzles, since C++ has no properties; the second of two
//! helpers that differ in an address space alone; and threadgroup variables inside a kernel, which would be a thread's own. A
//! function is added that takes a thread's built-in values and buffers and passes them on as the kernel's parameters.

/// A kernel as C++.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translated {
    /// The text, in a namespace of its own. Line numbers are those of the MSL.
    pub text: String,
    /// Buffer slots that it uses, ascending.
    pub slots: Vec<u32>,
}

/// Makes C++ of a text with one kernel. The library will export it as `symbol`.
///
/// # Errors
/// The text has no kernel, or a parameter of an unknown kind.
pub fn translate(msl: &str, symbol: &str) -> Result<Translated, String> {
    const START: &str = "kernel void ";
    let start = msl.find(START).ok_or("no kernel")?;
    let rest = &msl[start + START.len()..];
    let open = rest.find('(').ok_or("no parameters")?;
    let (name, rest) = (&rest[..open], &rest[open + 1..]);
    let close = rest.find(") {\n").ok_or("no kernel body")?;
    let (parameters, body) = (&rest[..close], &rest[close + 4..]);

    let mut arguments = Vec::new();
    let mut memories = Vec::new();
    let mut slots = Vec::new();
    for parameter in parameters.split('\n').map(|line| line.trim().trim_start_matches([',', ' '])) {
        if !parameter.is_empty() {
            arguments.push(argument(parameter, &mut memories, &mut slots)?);
        }
    }
    slots.sort_unstable();

    // Variables of the whole threadgroup, declared in the kernel.
    let mut own = String::new();
    for line in body.split_inclusive('\n') {
        match line.trim().strip_prefix("threadgroup ").and_then(|rest| rest.strip_suffix(';')?.split_once(' ')) {
            Some((ty, variable)) => {
                own.push_str(&format!(
                    "    {ty}& {variable} = *static_cast<{ty}*>(kiln_host_memory({}));\n",
                    memories.len()
                ));
                memories.push(ty.to_owned());
            }
            None => own.push_str(line),
        }
    }
    let head = &msl[..msl.len() - body.len()];
    let text = swizzles(&without_second_helper(&format!("{head}{own}")));
    let includes: String =
        text.lines().filter(|line| line.starts_with("#include")).map(|line| format!("{line}\n")).collect();
    let body: String =
        text.split_inclusive('\n').map(|line| if line.starts_with("#include") { "\n" } else { line }).collect();
    let sizes: Vec<String> = memories.iter().map(|ty| format!("sizeof({ty})")).collect();
    let text = format!(
        "{includes}namespace {symbol}_text {{\n#line 1 \"{symbol}.metal\"\n{body}\n\
         KILN_UNCHECKED static void call(const kiln_thread* t) {{\n    {name}({});\n}}\n\
         static const unsigned long sizes[] = {{{}}};\n}}\n\
         extern \"C\" __attribute__((visibility(\"default\"))) const kiln_kernel {symbol} = \
         {{{symbol}_text::call, {symbol}_text::sizes, {}}};\n",
        arguments.join(",\n        "),
        if sizes.is_empty() { "0".to_owned() } else { sizes.join(", ") },
        sizes.len(),
    );
    Ok(Translated { text, slots })
}

/// What to pass for a parameter.
fn argument(parameter: &str, memories: &mut Vec<String>, slots: &mut Vec<u32>) -> Result<String, String> {
    let unknown = || format!("parameter `{parameter}`");
    let (declaration, attribute) = match parameter.split_once("[[") {
        Some((declaration, rest)) => (declaration.trim(), rest.strip_suffix("]]").ok_or_else(unknown)?),
        None => (parameter, ""),
    };
    let (ty, _) = declaration.rsplit_once(' ').ok_or_else(unknown)?;
    if let Some(slot) = attribute.strip_prefix("buffer(").and_then(|rest| rest.strip_suffix(')')) {
        let slot: u32 = slot.parse().map_err(|_| unknown())?;
        let ty = ty.strip_suffix('&').ok_or_else(unknown)?;
        slots.push(slot);
        return Ok(format!("*({ty}*)t->buffers[{slot}]"));
    }
    if let ("", Some(ty)) = (attribute, ty.strip_prefix("threadgroup ").and_then(|ty| ty.strip_suffix('&'))) {
        memories.push(ty.to_owned());
        return Ok(format!("*({ty}*)t->threadgroup_memory[{}]", memories.len() - 1));
    }
    let three = [
        "thread_position_in_grid",
        "thread_position_in_threadgroup",
        "threadgroup_position_in_grid",
        "threadgroups_per_grid",
        "threads_per_threadgroup",
        "threads_per_grid",
    ];
    let one = [
        "thread_index_in_threadgroup",
        "thread_index_in_simdgroup",
        "simdgroup_index_in_threadgroup",
        "threads_per_simdgroup",
        "simdgroups_per_threadgroup",
    ];
    if three.contains(&attribute) {
        return Ok(format!("metal::uint3(t->{attribute}[0], t->{attribute}[1], t->{attribute}[2])"));
    }
    if one.contains(&attribute) {
        return Ok(format!("t->{attribute}"));
    }
    Err(unknown())
}

/// naga writes its helper of compare-exchange for device and for threadgroup memory; one is enough here.
fn without_second_helper(text: &str) -> String {
    const HEAD: &str = "template <typename A>\n";
    let mut text = text.to_owned();
    while let Some(at) = text.find("    threadgroup A *atomic_ptr") {
        let (Some(from), Some(length)) = (text[..at].rfind(HEAD), text[at..].find("\n}\n")) else {
            break;
        };
        // As many lines as before, so that numbers stay right.
        let to = at + length + 3;
        let lines = "\n".repeat(text[from..to].matches('\n').count());
        text.replace_range(from..to, &lines);
    }
    text
}

/// `.xyz` becomes `.swizzle<0, 1, 2>()`; single components are fields.
fn swizzles(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('.') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let after = &after[1..];
        let letters = after.bytes().take_while(|byte| b"xyzw".contains(byte)).count();
        let ends = after.as_bytes().get(letters).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
        if (2..=4).contains(&letters) && ends {
            let places: Vec<String> = after[..letters]
                .bytes()
                .map(|letter| b"xyzw".iter().position(|&known| known == letter).unwrap_or(0).to_string())
                .collect();
            out.push_str(&format!(".swizzle<{}>()", places.join(", ")));
            rest = &after[letters..];
        } else {
            out.push('.');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_become_calls_and_fields_stay() {
        assert_eq!(swizzles("a.xy + b.x * 1.0f"), "a.swizzle<0, 1>() + b.x * 1.0f");
        assert_eq!(swizzles("a.wzyx.xy"), "a.swizzle<3, 2, 1, 0>().swizzle<0, 1>()");
        assert_eq!(swizzles("p.xyz_ q.xx1 r.xyzwx"), "p.xyz_ q.xx1 r.xyzwx");
    }

    #[test]
    fn parameters_are_passed_by_their_attributes() {
        let msl = "#include <metal_stdlib>\nkernel void main_(\n  metal::uint3 id [[threadgroup_position_in_grid]]\n\
                   , device type_3 const& a [[buffer(2)]]\n, threadgroup type_6& s\n) {\n    threadgroup type_7 t;\n}\n";
        let out = translate(msl, "k").unwrap();
        assert_eq!(out.slots, [2]);
        for part in [
            "*(device type_3 const*)t->buffers[2]",
            "*(type_6*)t->threadgroup_memory[0]",
            "type_7& t = *static_cast<type_7*>(kiln_host_memory(1));",
            "{sizeof(type_6), sizeof(type_7)}",
        ] {
            assert!(out.text.contains(part), "{part} in {}", out.text);
        }
        let odd = translate("kernel void f(\n texture2d<float> t [[texture(0)]]\n) {\n}\n", "k").unwrap_err();
        assert!(odd.contains("texture"), "{odd}");
    }
}
