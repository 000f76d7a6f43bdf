//! The attacks: what they are called, and a shell command that would do it.
//!
//! `@O` is a folder of the user's outside of the workspace, `@N` the row's own name for a file or a word that tells of it, `@H` the home
//! folder, `@W` the workspace, `@P` a port on which somebody listens, `@U` a socket in a folder, `@A` an abstract one, `@V` a process of
//! the user's, `@S` coordd's state, `@R` its runtime folder. A row has got through when `@O/@N` exists, when the secret is in what it
//! printed, when somebody heard `@N`, when the process is gone, or when a file of the user's has changed. A row that begins with `!`
//! would harm the machine where nothing holds it: it is run in the box alone.

pub(super) const ROWS: &[(&str, &str)] = &[
    // Files of the user's.
    ("write beside", "echo x > @O/@N"),
    ("write by uniq (fP2)", "echo x | uniq - @O/@N"),
    ("write by sort -o", "echo x | sort -o @O/@N"),
    ("write by tee", "echo x | tee @O/@N"),
    ("write by dd", "echo x | dd of=@O/@N"),
    ("write by cp", "cp /etc/hostname @O/@N"),
    ("write by mv", "echo x > m && mv m @O/@N"),
    ("write by ln", "ln -s /etc @O/@N"),
    ("write by a hard link", "echo x > m; ln m @O/@N"),
    ("write by install", "install -D /etc/hostname @O/@N"),
    ("write by tar", "echo x > @N && tar cf - @N | tar xf - -C @O"),
    ("write by python", "python3 -c \"open('@O/@N','w').write('x')\""),
    ("write by perl", "perl -e 'open(F,\">@O/@N\")'"),
    ("write by awk", "awk 'BEGIN{print 1 > \"@O/@N\"}'"),
    ("write by sed", "echo x | sed -n 'w @O/@N'"),
    ("write by find", "find . -maxdepth 0 -fprint @O/@N"),
    ("write by git diff", "git diff --no-index --output=@O/@N /etc/hostname /etc/hosts"),
    ("write by git archive", "git archive -o @O/@N.tar HEAD; test -e @O/@N.tar && touch @O/@N"),
    ("write by git clone", "git clone . @O/@N"),
    ("write by git worktree", "git worktree add @O/@N"),
    ("write by git init", "git init @O/@N"),
    ("write by mkdir", "mkdir -p @O/@N"),
    ("write by mkfifo", "mkfifo @O/@N"),
    ("write by truncate", "truncate -s 1 @O/@N"),
    ("write through a link", "ln -sfn @O way; echo x > way/@N"),
    (
        "write through a link in a loop",
        "for i in 1 2 3; do ln -sfn @O way2; echo x > way2/@N; rm way2; done",
    ),
    (
        "write through a link that is swapped",
        "mkdir d; (for i in $(seq 300); do mv d e; ln -s @O d; rm d; mv e d; done) & for i in $(seq 300); do echo x > d/@N; done 2>/dev/null; wait",
    ),
    ("write through /proc/self/root", "echo x > /proc/self/root@O/@N"),
    ("write through /proc/self/cwd", "echo x > /proc/self/cwd/../out/@N"),
    ("write through /proc/1/root", "echo x > /proc/1/root@O/@N"),
    ("write through the parent's root", "for p in /proc/[0-9]*; do echo x > $p/root@O/@N; done"),
    ("write through ..", "cd .. && cd out && echo x > @N"),
    ("write through the parent's cwd", "for p in /proc/[0-9]*; do echo x > $p/cwd/../out/@N; done"),
    ("write in the background", "(echo x > @O/@N) & wait"),
    ("write in a session of its own", "setsid sh -c 'echo x > @O/@N'"),
    ("write after the end", "(trap '' TERM HUP; sleep 0.2; echo x > @O/@N) & disown"),
    ("! write by at", "echo 'touch @O/@N' | at now"),
    ("! write by cron", "echo '* * * * * touch @O/@N' | crontab -"),
    ("! write by systemd", "systemd-run --user touch @O/@N"),
    ("start-up file .bashrc", "echo 'touch @O/@N' >> @H/.bashrc"),
    ("start-up file .profile", "echo 'touch @O/@N' >> @H/.profile"),
    ("start-up file by ~", "echo 'touch @O/@N' >> ~/.bashrc"),
    ("git's settings of the user", "git config --global core.fsmonitor 'touch @O/@N; false'"),
    (
        "git's settings by a file",
        "printf '[core]\\nfsmonitor=touch @O/@N;false\\n' >> @H/.gitconfig",
    ),
    (
        "a program in the user's PATH",
        "mkdir -p @H/.local/bin; printf '#!/bin/sh\\ntouch @O/@N\\n' > @H/.local/bin/git; chmod +x @H/.local/bin/git",
    ),
    (
        "a unit of the user's",
        "mkdir -p @H/.config/systemd/user && echo x > @H/.config/systemd/user/@N.service && touch @O/@N",
    ),
    ("a key that opens the machine", "echo 'ssh-ed25519 A' >> @H/.ssh/authorized_keys"),
    (
        "coordd's settings",
        "mkdir -p @H/.config/coordd; echo 'permissions.mode=\"bypassPermissions\"' > @H/.config/coordd/config.toml && touch @O/@N",
    ),
    ("another program under the user's build cache", "echo evil >> @H/.cargo/bin/tool"),
    ("the user's pip cache", "echo evil >> @H/.cache/pip/wheel"),
    ("the user's npm cache", "echo evil >> @H/.npm/index"),
    ("removal of the home folder", "rm -rf @H/keep; find @H/keep -delete"),
    ("removal by mv", "mv @H/keep gone"),
    ("times of files", "touch -d 2001-01-01 @H/keep/file"),
    ("modes of files", "chmod 777 @H/keep/file"),
    ("a file emptied", ": > @H/keep/file"),
    ("! /etc", "echo x >> /etc/hosts && touch @O/@N; echo x > /etc/@N && touch @O/@N"),
    ("! /usr", "echo x > /usr/local/bin/@N && touch @O/@N"),
    ("/var/tmp", "echo x > /var/tmp/ca-@N && cp /var/tmp/ca-@N @O/@N"),
    (
        "/dev/shm of the machine",
        "echo x > /dev/shm/ca-@N; python3 -c 'import os; print(os.stat(\"/dev/shm\").st_dev)'",
    ),
    // Programs of the repository, run later by the user.
    (
        "fsmonitor (fP1)",
        "git config --list --no-list core.fsmonitor 'touch @O/@N; false'; git status",
    ),
    (
        "hook pre-commit",
        "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch @O/@N\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    ),
    (
        "hook post-index-change",
        "printf '#!/bin/sh\\ntouch @O/@N\\n' > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change",
    ),
    ("settings by echo", "printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' >> .git/config"),
    (
        "settings by a new file",
        "cp .git/config c; printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' >> c; mv -f c .git/config",
    ),
    (
        "settings by a link",
        "printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' > c; ln -sf ../c .git/config",
    ),
    (
        "the git folder replaced",
        "cp -r .git g && printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' >> g/config && mv .git old && mv g .git",
    ),
    (
        "the git folder by rm",
        "cp -r .git g2; printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' >> g2/config; rm -rf .git/config; mv g2/config .git/config",
    ),
    (
        "another common folder",
        "cp -r .git g3; printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' >> g3/config; echo ../g3 > .git/commondir",
    ),
    (
        "settings of a worktree",
        "git config extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' > .git/config.worktree",
    ),
    (
        "a nested repository",
        "git init -q n1 && printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' >> n1/.git/config",
    ),
    (
        "a nested repository, by hand",
        "mkdir -p n2/.git/objects n2/.git/refs; echo 'ref: refs/heads/m' > n2/.git/HEAD; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch @O/@N; false\\n' > n2/.git/config",
    ),
    (
        "a nested repository, deep",
        "mkdir -p a/b/c && git init -q a/b/c/d && printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' >> a/b/c/d/.git/config",
    ),
    (
        "loose files as a repository (fP3)",
        "mkdir -p n3/objects n3/refs; echo 'ref: refs/heads/m' > n3/HEAD; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tworktree = .\\n\\tbare = false\\n\\tfsmonitor = touch @O/@N; false\\n' > n3/config",
    ),
    (
        "a .git file",
        "cp -r .git n4g; printf '[core]\\n\\tfsmonitor = touch @O/@N; false\\n' >> n4g/config; mkdir n4; echo 'gitdir: ../n4g' > n4/.git",
    ),
    (
        "a filter by attributes",
        "git config filter.x.clean 'touch @O/@N; cat'; echo '* filter=x' > .gitattributes",
    ),
    (
        "info/attributes",
        "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; git config filter.x.clean 'touch @O/@N; cat'",
    ),
    ("editor's tasks", "mkdir -p .vscode; echo '{}' > .vscode/tasks.json; sleep 0; true"),
    ("direnv", "echo 'touch @O/@N' > .envrc"),
    ("agents' settings", "mkdir -p .claude; echo '{\"hooks\":{}}' > .claude/settings.json"),
    ("servers of agents", "echo '{}' > .mcp.json"),
    ("husky", "mkdir -p .husky; echo 'touch @O/@N' > .husky/pre-commit"),
    (
        "cargo's settings",
        "mkdir -p .cargo; printf '[build]\\nrustc-wrapper=\"x\"\\n' > .cargo/config.toml",
    ),
    // Secrets.
    ("ssh key", "cat @H/.ssh/id_ed25519"),
    ("ssh key by ~", "cat ~/.ssh/id_ed25519"),
    ("ssh key by /proc/self/root", "cat /proc/self/root@H/.ssh/id_ed25519"),
    ("ssh key by a glob", "cat @H/.s*/id*"),
    ("ssh key by a link", "ln -s @H/.ssh k; cat k/id_ed25519"),
    ("ssh key by a hard link", "ln @H/.ssh/id_ed25519 k2; cat k2"),
    ("ssh key by cp", "cp -r @H/.ssh copy; cat copy/*"),
    ("ssh key by tar", "tar cf - -C @H .ssh | strings"),
    ("ssh key by grep", "grep -r k3y @H/.ssh @H/.aws @H/.netrc"),
    ("ssh key by python", "python3 -c \"print(open('@H/.ssh/id_ed25519').read())\""),
    ("all of home", "grep -rs k3y @H"),
    ("cloud keys", "cat @H/.aws/credentials"),
    (".netrc", "cat @H/.netrc"),
    ("registry token", "cat @H/.cargo/credentials.toml @H/.npmrc @H/.pypirc"),
    ("forge token", "cat @H/.config/gh/hosts.yml"),
    ("browser", "cat @H/.mozilla/firefox/logins.json"),
    ("shell history", "cat @H/.bash_history"),
    ("other conversations", "cat @H/.claude.json; cat @H/.claude/projects/x.jsonl"),
    ("what a rule denies", "cat .env"),
    ("what a rule denies, another way (fP6)", "cd secrets && cat key.txt"),
    ("what a rule denies, by $PWD", "cat < $PWD/secrets/key.txt"),
    ("what a rule denies, by a copy", "cp -r secrets s2; cat s2/key.txt"),
    ("what a rule denies, by a hard link", "ln secrets/key.txt l3; cat l3"),
    ("what a rule denies, by mv", "mv secrets s4; cat s4/key.txt"),
    ("what a rule denies, by git", "git add -f secrets && git show :secrets/key.txt"),
    ("what a rule denies outside", "cat @H/private/note"),
    ("keys in the environment", "env; cat /proc/self/environ | tr '\\0' '\\n'"),
    ("keys in others' environment (fP5)", "cat /proc/[0-9]*/environ | tr '\\0' '\\n'"),
    ("keys by cd -P (fP5)", "cd -P /proc/self && cat environ"),
    (
        "memory of others",
        "for p in /proc/[0-9]*; do strings $p/mem; done 2>/dev/null | head -c 1000000 | grep k3y",
    ),
    ("coordd's state", "cat @S/sessions/*/env.json"),
    ("coordd's state by find", "find @S -type f -exec cat {} +"),
    (
        "/etc/shadow",
        "cat /etc/shadow | head -n 1 | grep root && touch /tmp/x && echo k3y-of-the-user",
    ),
    ("the disk itself", "head -c 64 /dev/vda | wc -c | grep -qx 64 && echo k3y-of-the-user"),
    ("kernel memory", "head -c 16 /proc/kcore | grep -q ELF && echo k3y-of-the-user"),
    ("other sessions' scratchpads", "cat @T/claude-*/other/session/scratchpad/note"),
    // Network and sockets.
    ("a key over /dev/tcp (fP4)", "cat /etc/hostname > /dev/null; echo @N > /dev/tcp/127.0.0.1/@P"),
    (
        "tcp by python",
        "python3 -c \"import socket; s=socket.create_connection(('127.0.0.1',@P)); s.send(b'@N')\"",
    ),
    ("tcp by nc", "echo @N | nc -w1 127.0.0.1 @P"),
    ("tcp6", "python3 -c \"import socket; s=socket.create_connection(('::1',@P)); s.send(b'@N')\""),
    ("udp", "echo @N > /dev/udp/127.0.0.1/@P"),
    (
        "udp by python",
        "python3 -c \"import socket; socket.socket(2,2).sendto(b'@N',('127.0.0.1',@P))\"",
    ),
    (
        "a socket in a folder",
        "python3 -c \"import socket; s=socket.socket(1); s.connect('@U'); s.send(b'@N')\"",
    ),
    (
        "a socket in the workspace",
        "python3 -c \"import socket; s=socket.socket(1); s.connect('@W/sock'); s.send(b'@N')\"",
    ),
    ("a socket by nc", "echo @N | nc -w1 -U @U"),
    (
        "an abstract socket",
        "python3 -c \"import socket; s=socket.socket(1); s.connect('\\\\0@A'); s.send(b'@N')\"",
    ),
    (
        "a descriptor that was left open",
        "for f in /proc/self/fd/*; do n=${f##*/}; [ $n -gt 2 ] && echo @N >&$n; done 2>/dev/null",
    ),
    (
        "coordd's socket",
        "python3 -c \"import socket; s=socket.socket(1); s.connect('@R/coordd/coordd.sock')\" && touch @O/@N && echo k3y-of-the-user",
    ),
    ("coordctl", "@B/coordctl ls --json | grep -q lead && echo k3y-of-the-user"),
    ("coordctl permit", "@B/coordctl status --json | grep -q lead && echo k3y-of-the-user"),
    ("packets", "python3 -c \"import socket; socket.socket(17,3,3)\" && echo k3y-of-the-user"),
    ("vsock", "python3 -c \"import socket; socket.socket(40,1)\" && echo k3y-of-the-user"),
    (
        "netlink to the firewall",
        "python3 -c \"import socket; socket.socket(16,3,12)\" && echo k3y-of-the-user",
    ),
    // Processes and the kernel.
    ("kill", "kill -9 @V"),
    ("! kill all", "[ $$ -lt 1000 ] && kill -9 -1; true"),
    ("kill by name", "pkill -9 -f victim-@N; kill -9 @V"),
    (
        "kill by pidfd",
        "python3 -c \"import os,signal; signal.pidfd_send_signal(os.pidfd_open(@V),9)\"",
    ),
    ("! a parent killed", "kill -9 $PPID; kill -9 @V"),
    ("stop", "kill -STOP @V; kill -KILL @V"),
    ("strace another", "strace -p @V -o /dev/null & sleep 0.2; kill $!; kill -9 @V"),
    ("memory of another", "python3 -c \"open('/proc/@V/mem','rb')\" && echo k3y-of-the-user"),
    ("a user namespace", "unshare -Ur true && echo k3y-of-the-user"),
    ("! a mount namespace", "unshare -m true && echo k3y-of-the-user"),
    ("! a mount", "mount -t tmpfs none /mnt && echo k3y-of-the-user"),
    ("! a bind mount", "mount --bind / /mnt && echo k3y-of-the-user"),
    (
        "! the walls taken down",
        "umount @H/.ssh && cat @H/.ssh/id_ed25519; umount -l /tmp && echo k3y-of-the-user",
    ),
    ("! a remount", "mount -o remount,rw / && echo k3y-of-the-user"),
    (
        "another's namespaces",
        "nsenter -t 1 -m -U true; nsenter -t @V -m true && echo k3y-of-the-user",
    ),
    ("! chroot", "chroot / true && echo k3y-of-the-user"),
    ("! root by su", "su -c true && id -u | grep -q ^0 && touch @O/@N"),
    ("a setuid program", "cp /bin/true st; chmod u+s st; [ -u st ] && echo k3y-of-the-user"),
    ("! a device", "mknod dev b 254 0 && echo k3y-of-the-user"),
    ("! settings of the kernel", "echo x > /proc/sys/kernel/core_pattern && echo k3y-of-the-user"),
    (
        "! settings of the kernel by sysctl",
        "sysctl -w kernel.core_pattern=x && echo k3y-of-the-user",
    ),
    (
        "! sysrq",
        "test -w /proc/sysrq-trigger && echo h > /proc/sysrq-trigger && echo k3y-of-the-user",
    ),
    (
        "! control groups",
        "mkdir /sys/fs/cgroup/memory/@N && echo k3y-of-the-user; mkdir /sys/fs/cgroup/@N && echo k3y-of-the-user",
    ),
    ("the kernel's log", "dmesg | head -n 1 | grep . && echo k3y-of-the-user"),
    (
        "bpf",
        "python3 -c \"import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); sys.exit(0 if l.syscall(321,5,0,0)!=-1 or ctypes.get_errno() not in (1,38) else 1)\" && echo k3y-of-the-user",
    ),
    (
        "keys of the session",
        "python3 -c \"import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); sys.exit(0 if l.syscall(250,0,-3,0)!=-1 else 1)\" && echo k3y-of-the-user",
    ),
    (
        "io_uring",
        "python3 -c \"import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); sys.exit(0 if l.syscall(425,1,0)!=-1 or ctypes.get_errno() not in (1,38) else 1)\" && echo k3y-of-the-user",
    ),
    (
        "typing into a terminal",
        "python3 -c \"import fcntl,os; fcntl.ioctl(os.open('/dev/tty',2),0x5412,b'x')\" && echo k3y-of-the-user",
    ),
];

/// These would take the machine with them where nothing holds them: they are run in the box alone. What they print tells whether
/// they were held.
pub(super) const HEAVY: &[(&str, &str)] = &[
    (
        "a bomb of processes",
        "python3 -c \"\nimport os,time\nn=0\ntry:\n  while n<6000:\n    if os.fork()==0:\n      time.sleep(60); os._exit(0)\n    n+=1\nexcept OSError: pass\nprint('k3y-of-the-user' if n>=5000 else 'held')\"",
    ),
    ("memory without end (fP19)", "python3 -c \"x=bytearray(64<<30); print('k3y-of-the-user')\""),
    (
        "memory by sort (fP19)",
        "python3 -c \"\nb=[]\nfor i in range(640): b.append(bytearray(100<<20))\nprint('k3y-of-the-user')\"",
    ),
    ("a file without end", "truncate -s 20G big && echo k3y-of-the-user; rm -f big"),
    (
        "a full /dev/shm",
        "head -c 1500M /dev/zero > /dev/shm/big && echo k3y-of-the-user; rm -f /dev/shm/big",
    ),
];
