//! The box in which an agent's commands run: which one this machine gives, and what it is for one call.
//!
//! ```text
//! at the agent's start   coordd-sandbox --probe --> Walls, or why there are none
//! before each command    what stands in the workspace now --> policy, in a descriptor
//! after it               what appeared under a protected name is set aside, and said
//! ```
//!
//! A policy that cannot be made is an error of the call: nothing runs outside because of it. It must not decide whether a
//! command may run; [`super::permissions`] does.

mod aftermath;
mod caches;
mod git;
pub(crate) mod places;
mod probed;
pub(crate) mod proxy;
mod standing;
mod surroundings;

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use coordd_sandbox::{Abilities, Bind, Hosts, Level, Place, Policy, VERSION};

pub(crate) use self::probed::probe;
use self::standing::Standing;
pub(crate) use self::surroundings::environment;
use super::ToolContext;
use super::context::PathFilter;

/// How far a command reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In the box; it may write in the workspace.
    #[default]
    Workspace,
    /// In the box; the workspace is read-only.
    ReadOnly,
    /// Not in a box: the user said yes to that.
    Outside,
}

/// Why there is no box.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WallsError {
    #[error("{} cannot be started; install it beside coordd-worker", program.display())]
    NoProgram {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is of another build: what it says is not understood; install the programs of one build", program.display())]
    OtherBuild { program: PathBuf },
    #[error(
        "the workspace is the root folder, in which everything would be writable; begin the session in a folder of its own"
    )]
    Root,
    #[error("{} cannot be prepared", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "rules that forbid reading or writing are about more files here than can be looked through; write them with a folder in front, as in Read(/secrets/**)"
    )]
    TooManyFiles,
    #[error("the policy cannot be handed over")]
    Descriptor(#[source] io::Error),
}

/// What the box of an agent is made of.
pub(crate) struct Walls {
    program: PathBuf,
    abilities: Abilities,
    level: Level,
    /// The agent's own folder, for its `/tmp` and what it keeps of caches.
    folder: PathBuf,
    home: Option<PathBuf>,
    /// What is covered in each box.
    secrets: Vec<PathBuf>,
    /// What is covered besides, where it lies in no folder of the session.
    foreign: Vec<PathBuf>,
    rules: PathRules,
    /// What can be reached through the proxy.
    hosts: Hosts,
}

/// What rules say about paths, as walls.
#[derive(Clone, Default)]
pub(crate) struct PathRules {
    /// Paths that may not be read.
    pub(crate) hidden: Option<PathFilter>,
    /// Paths that may not be written.
    pub(crate) kept: Option<PathFilter>,
    /// Where such rules begin, besides the workspace.
    pub(crate) beginnings: Vec<PathBuf>,
}

/// Where an agent's box finds things.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The agent's folder in coordd's state.
    pub(crate) agent_state: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) home: Option<PathBuf>,
    /// Where scratchpads begin.
    pub(crate) temp: PathBuf,
    /// Whether its folders and the system are all that it may see.
    pub(crate) folder_only: bool,
}

/// What one command runs in.
pub(crate) struct Prepared {
    pub(crate) policy: OwnedFd,
    before: Standing,
}

impl Walls {
    pub(crate) fn new(
        (program, mut abilities): (PathBuf, Abilities),
        level: Level,
        site: &Site,
        rules: PathRules,
        hosts: Hosts,
    ) -> Self {
        let mut foreign = Vec::new();
        if site.folder_only {
            foreign = places::foreign(site.home.as_deref()).into_iter().map(real).collect();
            // What lies in a cache came from the user's own work; tools are put back without it.
            abilities.overlays = false;
        }
        Self {
            program,
            abilities,
            level,
            folder: site.agent_state.join("box"),
            home: site.home.clone(),
            secrets: places::secrets(site),
            foreign,
            rules,
            hosts,
        }
    }

    /// A box could not be built: what was found out of the machine is not true any more.
    pub(crate) fn doubt(&self) {
        probed::forget(super::permissions::state_of(self.folder.parent().unwrap_or(&self.folder)));
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// What the box has as its `/tmp`.
    pub(crate) fn temp(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Where a path in `/tmp` lies that commands in the box mean by it. None for what lies elsewhere, and for what is not in the box
    /// and is out here: then the user's own is meant.
    pub(crate) fn in_own_temp(&self, path: &Path, context: &ToolContext) -> Option<PathBuf> {
        let path = super::paths::normalize(path);
        let inside = path.strip_prefix("/tmp").ok()?;
        let mut put_back = roots(context);
        put_back.extend(scratchpad(context));
        put_back.extend(self.home.clone().map(real));
        let elsewhere = put_back.iter().any(|it| path.starts_with(it) || it.starts_with(&path));
        if self.level != Level::Namespaces || elsewhere || inside.as_os_str().is_empty() {
            return None;
        }
        let own = self.temp().join(inside);
        let is_there = |it: &Path| it.symlink_metadata().is_ok();
        (is_there(&own) || !is_there(&path)).then_some(own)
    }

    /// What its commands can reach; none where a box has no network of its own.
    pub(crate) fn hosts(&self) -> Option<Hosts> {
        (self.level == Level::Namespaces).then(|| self.hosts.clone())
    }

    /// What a command runs in from now until it ends.
    pub(crate) fn prepare(
        &self,
        context: &ToolContext,
        reach: Reach,
    ) -> Result<Prepared, WallsError> {
        let (policy, before) = self.policy(context, reach)?;
        let text = serde_json::to_vec(&policy).map_err(|it| WallsError::Descriptor(it.into()))?;
        let hand_over = || {
            use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
            let mut file = std::fs::File::from(memfd_create("policy", MemfdFlags::CLOEXEC)?);
            file.write_all(&text)?;
            seek(&file, SeekFrom::Start(0))?;
            Ok(OwnedFd::from(file))
        };
        let policy = hand_over().map_err(WallsError::Descriptor)?;
        Ok(Prepared { policy, before })
    }

    /// Looks at what a command left, and says what of it was set aside.
    pub(crate) fn look_after(&self, context: &ToolContext, prepared: &Prepared) -> Vec<String> {
        caches::open_work_folders(&self.folder);
        aftermath::set_aside(&prepared.before, &roots(context), &self.folder.join("set-aside"))
    }

    fn policy(
        &self,
        context: &ToolContext,
        reach: Reach,
    ) -> Result<(Policy, Standing), WallsError> {
        let cwd = context.real_cwd();
        if cwd == Path::new("/") {
            return Err(WallsError::Root);
        }
        let temp = self.temp();
        make_private(&temp)?;
        let standing = Standing::of(&roots(context));
        let mut policy = Policy {
            version: VERSION,
            level: self.level,
            cwd: cwd.into(),
            writable: Vec::new(),
            overlays: Vec::new(),
            read_only: Vec::new(),
            pinned: Vec::new(),
            hidden: self.secrets.iter().filter(|it| it.exists()).cloned().map(Place).collect(),
            proxy: self.level == Level::Namespaces,
            limits: surroundings::limits(),
        };
        let own = roots(context);
        let foreign = |path: &&PathBuf| path.exists() && !own.iter().any(|it| path.starts_with(it));
        policy.hidden.extend(self.foreign.iter().filter(foreign).cloned().map(Place));
        let opened = if reach == Reach::Workspace { roots(context) } else { Vec::new() };
        for path in self.shown_below_covers(context) {
            policy.writable.push(same(&path));
            // Of two changes of one place the later wins: a workspace below a cover has to stay writable.
            if !opened.contains(&path) {
                policy.read_only.push(path.into());
            }
        }
        if self.level == Level::Namespaces {
            policy.writable.push(Bind { from: temp.into(), at: "/tmp".into() });
            policy.hidden.extend(places::sockets(&policy).into_iter().map(Place));
            if self.abilities.overlays {
                policy.overlays =
                    caches::overlays(&self.folder, self.home.as_deref(), context.environment());
            }
        } else {
            policy.writable.push(same(&temp));
        }
        policy.writable.extend(scratchpad(context).as_deref().map(same));
        if reach == Reach::Workspace {
            self.open_workspace(context, &standing, &mut policy);
        }
        self.follow_rules(context, &mut policy)?;
        Ok((policy, standing))
    }

    /// The workspace and its repository, writable but for what configures what runs.
    fn open_workspace(&self, context: &ToolContext, standing: &Standing, policy: &mut Policy) {
        policy.writable.extend(roots(context).iter().map(|it| same(it)));
        for repository in standing.repositories() {
            policy.writable.extend(repository.opened.iter().map(|it| same(it)));
            policy.pinned.extend(repository.pinned.iter().cloned().map(Place));
        }
        // A link cannot be held; what it leads to can. Whether it still leads there is looked at afterwards.
        let held = standing.protected().cloned().map(real).filter(|it| it.exists());
        policy.read_only.extend(held.map(Place));
        // A workspace may be the home folder, or hold it.
        if let Some(home) = &self.home {
            let configures = super::permissions::CONFIGURES.map(|it| home.join(it));
            let inside =
                |it: &PathBuf| policy.writable.iter().any(|bind| it.starts_with(&bind.at.0));
            let there: Vec<_> =
                configures.into_iter().filter(|it| inside(it) && it.exists()).map(real).collect();
            policy.read_only.extend(there.into_iter().map(Place));
        }
    }

    /// Folders that have to be seen although what lies around them is covered.
    fn shown_below_covers(&self, context: &ToolContext) -> Vec<PathBuf> {
        if self.level == Level::Landlock {
            return Vec::new();
        }
        let variable =
            |name: &str| context.environment().get(std::ffi::OsStr::new(name)).map(PathBuf::from);
        let tools = ["CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "NVM_DIR"];
        let alone = !self.foreign.is_empty();
        let whole = self.home.iter().filter(|_| !alone).cloned();
        let of_tools = self.home.iter().filter(|_| alone).flat_map(|home| {
            let searched = variable("PATH").unwrap_or_default();
            let searched: Vec<PathBuf> =
                std::env::split_paths(&searched).filter(|it| it != home).collect();
            places::TOOLS.map(|name| home.join(name)).into_iter().chain(searched)
        });
        let named = whole.chain(of_tools).chain(tools.into_iter().filter_map(variable));
        let is_below = |path: &Path, top: &Path| path.starts_with(top) && path != top;
        let mut shown: Vec<PathBuf> = named
            .chain([context.real_cwd().to_owned()])
            .chain(context.additional_dirs.iter().cloned())
            .chain(
                ["/run/current-system", "/run/opengl-driver", "/run/wrappers"].map(PathBuf::from),
            )
            .filter(|it| it.is_absolute() && it.is_dir())
            .map(real)
            .filter(|it| {
                places::COVERED.iter().any(|top| is_below(it, Path::new(top)))
                    || self.foreign.iter().any(|top| is_below(it, top))
            })
            .collect();
        shown.sort();
        shown.dedup();
        shown
    }

    /// Rules that forbid reading or writing, as walls.
    fn follow_rules(&self, context: &ToolContext, policy: &mut Policy) -> Result<(), WallsError> {
        let mut from = roots(context);
        from.extend(scratchpad(context));
        from.extend(self.rules.beginnings.iter().cloned().map(real));
        for (filter, into) in
            [(&self.rules.hidden, &mut policy.hidden), (&self.rules.kept, &mut policy.read_only)]
        {
            let Some(filter) = filter else { continue };
            let found = places::found_by(filter, &from).ok_or(WallsError::TooManyFiles)?;
            into.extend(found.into_iter().map(Place));
        }
        Ok(())
    }
}

/// The folders of the session in which an agent works, resolved.
fn roots(context: &ToolContext) -> Vec<PathBuf> {
    let more = context.additional_dirs.iter().cloned().map(real).filter(|it| it.is_dir());
    let mut roots = vec![context.real_cwd().to_owned()];
    roots.extend(more.filter(|it| it != Path::new("/")));
    roots
}

fn scratchpad(context: &ToolContext) -> Option<PathBuf> {
    context.scratchpad.clone().map(real).filter(|it| it.is_dir())
}

fn real(path: PathBuf) -> PathBuf {
    super::paths::resolve(&path).unwrap_or(path)
}

fn same(path: &Path) -> Bind {
    Bind { from: path.into(), at: path.into() }
}

fn make_private(path: &Path) -> Result<(), WallsError> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| WallsError::Folder { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
