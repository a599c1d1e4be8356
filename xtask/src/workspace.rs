//! `cargo metadata`, read once into the few facts that the checks need.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::process;

/// The packages of the dependency graph and where the build output goes.
pub(crate) struct Workspace {
    /// Every package of the graph by its id; the members among them are marked.
    pub(crate) packages: BTreeMap<String, Package>,
    /// Cargo's target directory.
    pub(crate) target_dir: PathBuf,
}

/// One package: a member of the workspace or something it depends on.
pub(crate) struct Package {
    pub(crate) name: String,
    /// The directory of its manifest.
    pub(crate) dir: PathBuf,
    pub(crate) member: bool,
    /// False for `publish = false`.
    pub(crate) published: bool,
    /// Ids of what it needs to be built and to run; dev-dependencies are left out.
    /// Empty unless the graph was resolved.
    pub(crate) dependencies: Vec<String>,
}

impl Workspace {
    /// The members alone: reads manifests, downloads nothing.
    pub(crate) fn members() -> Result<Self, String> {
        Self::query(&["--no-deps"])
    }

    /// The members and all they depend on, on every target and with every feature.
    pub(crate) fn resolved() -> Result<Self, String> {
        Self::query(&["--all-features"])
    }

    fn query(arguments: &[&str]) -> Result<Self, String> {
        let text =
            process::output(process::cargo().args(["metadata", "--quiet", "--format-version", "1"]).args(arguments))?;
        let json = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        Self::parse(&json).ok_or_else(|| "cargo metadata: not the expected format".to_owned())
    }

    /// Reads the output of `cargo metadata --format-version 1`.
    pub(crate) fn parse(json: &Value) -> Option<Self> {
        let members: Vec<&str> = strings(&json["workspace_members"])?;
        let mut packages = BTreeMap::new();
        for package in json["packages"].as_array()? {
            let id = package["id"].as_str()?;
            let publish = package["publish"].as_array();
            packages.insert(
                id.to_owned(),
                Package {
                    name: package["name"].as_str()?.to_owned(),
                    dir: PathBuf::from(package["manifest_path"].as_str()?).parent()?.to_owned(),
                    member: members.contains(&id),
                    published: publish.is_none_or(|registries| !registries.is_empty()),
                    dependencies: Vec::new(),
                },
            );
        }
        for node in json["resolve"]["nodes"].as_array().into_iter().flatten() {
            let package = packages.get_mut(node["id"].as_str()?)?;
            for dependency in node["deps"].as_array()? {
                let kinds = dependency["dep_kinds"].as_array()?;
                if kinds.iter().any(|kind| kind["kind"] != "dev") {
                    let id = dependency["pkg"].as_str()?;
                    package.dependencies.push(id.to_owned());
                }
            }
        }
        Some(Self { packages, target_dir: PathBuf::from(json["target_directory"].as_str()?) })
    }

    /// The members of the workspace, by name.
    pub(crate) fn by_name(&self) -> Vec<&Package> {
        let mut members: Vec<_> = self.packages.values().filter(|p| p.member).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members
    }
}

fn strings(json: &Value) -> Option<Vec<&str>> {
    json.as_array()?.iter().map(Value::as_str).collect()
}
