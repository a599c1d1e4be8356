//! Dependencies run one way, and each crate keeps out of the others' business.
//!
//! `backends/wgpu → shaders → core` and `backends/cpu → core`; the façade may use all
//! of them. Followed through the whole graph, so that nothing arrives by a detour.

use std::collections::BTreeSet;
use std::path::Path;

use crate::source;
use crate::workspace::{Package, Workspace};

/// What a published crate may reach among the crates that matter, and what its own
/// source must not name.
struct Rule {
    name: &'static str,
    /// Crates that it may reach, directly or not; a trailing `*` stands for any ending.
    reaches: &'static [&'static str],
    /// Paths that its code must not contain.
    avoids: &'static [&'static str],
    may_be_unsafe: bool,
}

/// Crates to which the rules apply: ours, and those that bring a GPU or threads.
const WATCHED: [&str; 4] = ["kiln*", "wgpu*", "naga*", "rayon*"];

/// Files, clocks, threads and the network belong to the backends.
const OUTSIDE_WORLD: &[&str] = &["std::fs", "std::net", "std::thread", "std::time"];

const RULES: [Rule; 5] = [
    Rule { name: "kiln-array", reaches: &[], avoids: OUTSIDE_WORLD, may_be_unsafe: false },
    Rule { name: "kiln-shaders", reaches: &["kiln-array", "naga*"], avoids: OUTSIDE_WORLD, may_be_unsafe: false },
    Rule {
        name: "kiln-cpu",
        reaches: &["kiln-array", "rayon*"],
        avoids: &["std::fs", "std::net"],
        may_be_unsafe: false,
    },
    Rule {
        name: "kiln-wgpu",
        reaches: &["kiln-array", "kiln-shaders", "wgpu*", "naga*"],
        avoids: &["std::net"],
        may_be_unsafe: true,
    },
    Rule { name: "kiln", reaches: &WATCHED, avoids: &["std::net"], may_be_unsafe: false },
];

/// Fails with every violation found.
pub(crate) fn run() -> Result<(), String> {
    let workspace = Workspace::resolved()?;
    let mut violations = graph_violations(&workspace);
    for package in workspace.by_name() {
        if let Some(rule) = rule_for(package) {
            violations.extend(source_violations(rule, &package.dir.join("src"))?);
        }
    }
    if violations.is_empty() {
        println!("layers: {} crates keep to their rules", RULES.len());
        Ok(())
    } else {
        Err(violations.join("\n       "))
    }
}

fn rule_for(package: &Package) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == package.name)
}

fn graph_violations(workspace: &Workspace) -> Vec<String> {
    let mut violations = Vec::new();
    for package in workspace.by_name() {
        let Some(rule) = rule_for(package) else {
            if package.published {
                violations.push(format!("{}: published, but no rule says what it may use", package.name));
            }
            continue;
        };
        for path in watched_paths(workspace, package) {
            if let Some(reached) = path.last()
                && !matches_any(rule.reaches, reached)
            {
                let path = path.join(" → ");
                violations.push(format!("{} must not use {reached}: {path}", rule.name));
            }
        }
    }
    violations
}

/// One path from `start` to each watched package that it reaches.
fn watched_paths<'a>(workspace: &'a Workspace, start: &'a Package) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut pending = vec![(start, vec![start.name.as_str()])];
    while let Some((package, path)) = pending.pop() {
        for id in &package.dependencies {
            let Some(next) = workspace.packages.get(id) else {
                continue;
            };
            if seen.insert(id) {
                let path = [path.as_slice(), &[next.name.as_str()]].concat();
                if matches_any(&WATCHED, &next.name) {
                    found.push(path.clone());
                }
                pending.push((next, path));
            }
        }
    }
    found
}

fn matches_any(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    })
}

fn source_violations(rule: &Rule, src: &Path) -> Result<Vec<String>, String> {
    let mut violations = Vec::new();
    for path in source::files(src, &["rs"])? {
        let code = source::code(&source::read(&path)?);
        let is_root = path == src.join("lib.rs");
        let shown = path.strip_prefix(crate::process::root()).unwrap_or(&path);
        violations.extend(text_violations(rule, &shown.display().to_string(), &code, is_root));
    }
    Ok(violations)
}

/// `code` is the text of one file without comments and literals.
fn text_violations(rule: &Rule, shown: &str, code: &str, is_root: bool) -> Vec<String> {
    let mut avoided = rule.avoids.to_vec();
    if !rule.may_be_unsafe {
        avoided.push("unsafe");
    }
    let mut violations = Vec::new();
    for path in avoided {
        for line in source::lines_with(code, path) {
            violations.push(format!("{shown}:{line}: {} must not contain `{path}`", rule.name));
        }
    }
    if is_root && !rule.may_be_unsafe && !code.contains("#![forbid(unsafe_code)]") {
        violations.push(format!("{shown}: lacks `#![forbid(unsafe_code)]`"));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn this_workspace_keeps_its_layers() {
        assert_eq!(run(), Ok(()));
    }

    /// A workspace of `kiln-array` and `kiln-cpu`, with one more edge of the given kind.
    fn planted(from: &str, to: &str, kind: Value) -> Vec<String> {
        let names = ["kiln-array", "kiln-cpu", "helper", "rayon", "naga"];
        let edge = |to: &str, kind: &Value| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let normal = Value::Null;
        let nodes = names.map(|name| {
            let mut deps = match name {
                "kiln-array" => vec![edge("helper", &normal)],
                "kiln-cpu" => vec![edge("kiln-array", &normal), edge("rayon", &normal)],
                _ => vec![],
            };
            if name == from {
                deps.push(edge(to, &kind));
            }
            json!({"id": name, "deps": deps})
        });
        let packages = names.map(
            |name| json!({"id": name, "name": name, "publish": null, "manifest_path": format!("{name}/Cargo.toml")}),
        );
        let metadata = json!({
            "workspace_members": ["kiln-array", "kiln-cpu"],
            "packages": packages,
            "resolve": {"nodes": nodes},
            "target_directory": "target",
        });
        Workspace::parse(&metadata).map_or_else(Vec::new, |workspace| graph_violations(&workspace))
    }

    #[test]
    fn a_planted_dependency_is_caught_through_a_detour() {
        assert_eq!(
            planted("helper", "naga", Value::Null),
            [
                "kiln-array must not use naga: kiln-array → helper → naga",
                "kiln-cpu must not use naga: kiln-cpu → kiln-array → helper → naga",
            ]
        );
        assert_eq!(planted("kiln-array", "rayon", Value::Null), ["kiln-array must not use rayon: kiln-array → rayon"]);
        assert_eq!(planted("kiln-array", "naga", json!("build")).len(), 2);
    }

    #[test]
    fn an_honest_graph_and_a_dev_dependency_pass() {
        assert_eq!(planted("kiln-cpu", "kiln-array", Value::Null), [""; 0]);
        assert_eq!(planted("helper", "naga", json!("dev")), [""; 0]);
    }

    #[test]
    fn planted_code_is_caught() {
        let [core, .., wgpu, _] = &RULES;
        let text = "use std::time::Instant;\nfn f() { unsafe { g() } }\n";
        assert_eq!(
            text_violations(core, "lib.rs", text, true),
            [
                "lib.rs:1: kiln-array must not contain `std::time`",
                "lib.rs:2: kiln-array must not contain `unsafe`",
                "lib.rs: lacks `#![forbid(unsafe_code)]`",
            ]
        );
        assert_eq!(text_violations(wgpu, "lib.rs", text, true), [""; 0]);
        let clean = "#![forbid(unsafe_code)]\nfn f() {}\n";
        assert_eq!(text_violations(core, "lib.rs", clean, true), [""; 0]);
    }
}
