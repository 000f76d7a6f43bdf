//! Ordinary work, which must go through without a question.

/// Ordinary work. Each says that it went well.
pub(super) const WORK: &[(&str, &str)] = &[
    ("touch (fP18)", "touch x && test -e x && echo went well"),
    (
        "scratchpad (fP18)",
        "mkdir -p $COORDD_SCRATCHPAD/d && cp src $COORDD_SCRATCHPAD/d/ && echo 1 > $COORDD_SCRATCHPAD/f && echo went well",
    ),
    ("/tmp", "echo 1 > /tmp/left && echo went well"),
    ("/tmp of the call before", "cat /tmp/left && echo went well"),
    ("mktemp", "f=$(mktemp) && echo 1 > $f && rm $f && echo went well"),
    ("a file by heredoc", "cat > made.py <<'EOF'\nprint('went well')\nEOF\npython3 made.py"),
    (
        "variables, pipes, loops",
        "for i in $(seq 3); do X=$i; echo $X; done | sort -r | head -n 1 | grep 3 && echo went well",
    ),
    ("git status", "git status --short && echo went well"),
    (
        "git add and commit",
        "echo 2 >> src && git add src made.py && git commit -qm 'A change' && git log --oneline | head -n 1 && echo went well",
    ),
    (
        "git commit with a heredoc",
        "echo 3 >> src; git commit -qa -F - <<'EOF'\nSubject\n\nBody $HOME `x`\nEOF\ngit log -1 --format=%b | grep Body && echo went well",
    ),
    ("git diff", "echo 4 >> src; git diff | grep '^+4' && echo went well"),
    ("git stash", "git stash -q && git stash pop -q && echo went well"),
    (
        "git branch",
        "git branch other && git branch -d other && git switch -qc third && git switch -q main && echo went well",
    ),
    (
        "git merge and rebase",
        "git stash -q; git switch -qc feature && echo f > f && git add f && git commit -qm f && git switch -q main && echo g > g && git add g && git commit -qm g && git rebase -q feature && git merge -q feature && git stash pop -q && echo went well",
    ),
    ("git gc", "git gc -q && git fsck && echo went well"),
    (
        "git worktree inside",
        "git worktree add -q inner && (cd inner && echo h > h && git add h && git commit -qm h) && git worktree remove inner && echo went well",
    ),
    ("git tag", "git tag v1 && git describe --tags && echo went well"),
    (
        "git init in a new folder",
        "git init -q fresh && cd fresh && echo 1 > a && git add a && git commit -qm a && echo went well",
    ),
    ("and again", "cd fresh && test -d .git && echo 2 > a && git commit -qam b && echo went well"),
    (
        "git clone of a folder",
        "git clone -q . cloned && cd cloned && git log --oneline | grep -q . && echo went well",
    ),
    (
        "compile C",
        "printf 'int main(void){return 0;}' > a.c && cc a.c -o a.out && ./a.out && echo went well",
    ),
    (
        "python's tests",
        "printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test(self): self.assertEqual(1,1)\\n' > test_a.py && python3 -m unittest -q test_a 2>&1 && echo went well",
    ),
    (
        "python's processes",
        "python3 -c 'import multiprocessing as m; p=m.Pool(2); print(p.map(abs,[-1,-2])); p.close()' && echo went well",
    ),
    (
        "a server on localhost",
        "python3 -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 & for i in $(seq 100); do python3 -c \"import urllib.request as u; u.urlopen('http://127.0.0.1:8123/src')\" 2>/dev/null && echo went well && break; sleep 0.1; done",
    ),
    (
        "a socket of one's own",
        "python3 -c \"import socket; s=socket.socket(1); s.bind('own.sock'); s.listen(); c=socket.socket(1); c.connect('own.sock'); print('went well')\"",
    ),
    (
        "ps, /proc and signals",
        "sleep 60 & ps aux | grep -c sleep && kill $! && cat /proc/self/status > /dev/null && nproc && echo went well",
    ),
    (
        "tar, find, xargs",
        "tar czf all.tgz src && tar tzf all.tgz && find . -name '*.py' | xargs wc -l && echo went well",
    ),
    (
        "rename and remove",
        "mkdir -p p/q && mv src p/q/src2 && rm -r p && git checkout -q -- src && echo went well",
    ),
    ("a terminal", "python3 -c \"import pty; pty.spawn(['echo','went well'])\""),
    ("strace of one's own", "strace -o /tmp/s true && grep -q execve /tmp/s && echo went well"),
    ("a long pipe", "yes | head -n 300000 | wc -l | grep 300000 && echo went well"),
    (
        "caches in the home folder",
        "echo mine > ~/.cache/pip/own && cat ~/.cache/pip/wheel && echo mine > ~/.npm/own && echo went well",
    ),
    ("caches of the call before", "cat ~/.cache/pip/own && echo went well"),
    (
        "cargo, without a network",
        "cargo new -q --vcs none crate1 2>&1; cd crate1 && cargo build -q --offline 2>&1 && ./target/debug/crate1 && echo went well",
    ),
    (
        "make",
        "printf 'all: made\\n\\t@cat made\\nmade:\\n\\t@echo went well > made\\n' > Makefile && make -s -j2",
    ),
    (
        "pip, of a wheel that is here",
        "python3 - <<'EOF'\nimport zipfile\nwith zipfile.ZipFile('own-1.0-py3-none-any.whl', 'w') as z:\n  z.writestr('own.py', 'word = \"went well\"\\n')\n  z.writestr('own-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: own\\nVersion: 1.0\\n')\n  z.writestr('own-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n  z.writestr('own-1.0.dist-info/RECORD', '')\nEOF\npython3 -m venv v && v/bin/pip install -q --no-index ./own-1.0-py3-none-any.whl 2>&1 && v/bin/python -c 'import own; print(own.word)'",
    ),
    ("echo of a variable", "echo $USER; echo went well"),
];
