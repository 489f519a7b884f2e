//! Programs of daily work do the same within as outside.

use std::fs;
use std::path::Path;

use aishd_process::contained::Containment;

use crate::Test;
use crate::place::{Place, User};

pub(crate) const TESTS: &[Test] = &[
    ("daily_work_in_a_workspace_goes_on", in_workspace),
    ("daily_work_in_a_layer_goes_on", in_layer),
];

/// What is needed, and what is done; nothing that it prints is different each time.
const WORK: &[(&str, &str)] = &[
    (
        "sh",
        "seq 100 | grep 7 | sort -rn | head -3 | tee file | wc -l; cat file; echo \"${#PATH}\" >/dev/null",
    ),
    (
        "git",
        "export GIT_AUTHOR_DATE=@1 GIT_COMMITTER_DATE=@1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; git init -q -b main repo && cd repo && echo x >f && git add f && git commit -qm one && echo y >>f && git status --short && git stash -q && git stash pop -q && git branch b && git checkout -q b && git commit -qam two && git log --format=%H%s && git gc -q && git fsck && git mv f g && git diff --cached --stat",
    ),
    (
        "tar",
        "mkdir d && echo x >d/x && ln -s x d/y && ln d/x d/z && tar czf d.tgz d && rm -r d && tar xzf d.tgz && find d -type l && cat d/z && tar tzf d.tgz | sort",
    ),
    ("sed", "echo abc >f && sed -i s/b/B/ f && cat f && ls"),
    ("awk", "seq 10 | awk '{s+=$1} END {print s}'"),
    (
        "find",
        "mkdir -p a/b/c && touch a/b/c/f && find . -name f -print0 | xargs -0 -n1 basename && find . -type d | sort && find a -delete && ls",
    ),
    ("xargs", "seq 20 | xargs -P4 -n5 sh -c 'echo $#' sh | sort"),
    (
        "sort",
        "seq 200000 | shuf --random-source=/bin/sh | sort -n --parallel=2 -S1M | md5sum",
    ),
    (
        "cp",
        "mkdir a && echo x >a/x && chmod 750 a && chmod 4711 a/x && cp -a a b && stat -c '%a %n' b b/x && mv b c && rm -r a && ls && chmod -R u+w c && rm -r c",
    ),
    (
        "mktemp",
        "f=$(mktemp) && echo x >$f && cat $f && rm $f && d=$(mktemp -d) && ls $d && rmdir $d",
    ),
    (
        "stat",
        "touch -d @1000 f && stat -c '%Y %s %U' f >/dev/null && stat -c '%Y %s' f && test -w . && test ! -e nothing && id -u && umask",
    ),
    (
        "bash",
        "bash -c 'diff <(echo a) <(echo b); shopt -s globstar; cat <<<here; echo $((6*7)); coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x'",
    ),
    (
        "python3",
        "/usr/bin/python3 -c 'import multiprocessing as m\ndef f(x): return x*x\nif __name__ == \"__main__\":\n  q = m.Queue(); q.put(1); print(q.get())\n  l = m.Lock(); s = m.Semaphore(2); s.acquire()\n  with m.get_context(\"fork\").Pool(2) as p: print(p.map(f, range(5)))'",
    ),
    (
        "python3",
        "/usr/bin/python3 -c 'from multiprocessing import shared_memory as s, managers\nm = s.SharedMemory(create=True, size=16); m.buf[0] = 7; print(m.buf[0]); m.close(); m.unlink()\nk = managers.SyncManager(); k.start(); d = k.dict(); d[1] = 2; print(d[1]); k.shutdown()'",
    ),
    (
        "python3",
        "/usr/bin/python3 -c 'import socket, threading\ns = socket.create_server((\"127.0.0.1\", 0))\ndef serve():\n  c, _ = s.accept(); c.sendall(c.recv(9).upper()); c.close()\nt = threading.Thread(target=serve); t.start()\nc = socket.create_connection(s.getsockname()); c.sendall(b\"abc\"); print(c.recv(9)); t.join()\nprint(socket.getaddrinfo(\"localhost\", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4])\na, b = socket.socketpair(); a.send(b\"x\"); print(b.recv(1))'",
    ),
    (
        "python3",
        "/usr/bin/python3 -c 'import tempfile, sqlite3, os, asyncio, subprocess\nwith tempfile.TemporaryDirectory() as d:\n  c = sqlite3.connect(d + \"/x.db\"); c.execute(\"pragma journal_mode=wal\"); c.execute(\"create table t(a)\"); c.execute(\"insert into t values(3)\"); c.commit(); print(c.execute(\"select a from t\").fetchall())\nc = sqlite3.connect(\"here.db\"); c.execute(\"create table if not exists t(a)\"); c.commit(); print(os.path.exists(\"here.db\"))\nasync def f():\n  p = await asyncio.create_subprocess_exec(\"echo\", \"hi\", stdout=subprocess.PIPE); print(await p.communicate())\nasyncio.run(f())'",
    ),
    (
        "python3",
        "/usr/bin/python3 -c 'import pty, os\npid, fd = pty.fork()\nif pid == 0: os.execvp(\"tty\", [\"tty\", \"-s\"])\nprint(os.waitpid(pid, 0)[1])\nimport mmap\nwith open(\"m\", \"w+b\") as f: f.truncate(4096); m = mmap.mmap(f.fileno(), 0); m[:3] = b\"abc\"; m.flush()\nprint(open(\"m\",\"rb\").read(3))'",
    ),
    (
        "python3",
        "/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)' && rm -r v",
    ),
    (
        "sqlite3",
        "sqlite3 x.db 'create table t(a); insert into t values(1),(2); select sum(a) from t;' && ls",
    ),
    (
        "make",
        "printf 'all: a b\\n\\t@cat a b\\na:\\n\\t@echo A >a\\nb:\\n\\t@echo B >b\\n' >Makefile && make -s -j2 all && make -q all && echo done",
    ),
    (
        "node",
        "node -e 'const fs=require(\"fs\"),h=require(\"http\");fs.writeFileSync(\"f\",\"x\");console.log(fs.readFileSync(\"f\",\"utf8\"));const s=h.createServer((q,r)=>r.end(\"hi\")).listen(0,\"127.0.0.1\",()=>h.get({port:s.address().port,host:\"127.0.0.1\"},r=>r.on(\"data\",d=>{console.log(String(d));s.close();process.exit()})))' && node -e 'const {Worker}=require(\"worker_threads\");new Worker(\"require(\\\"worker_threads\\\").parentPort.postMessage(1)\",{eval:true}).on(\"message\",m=>console.log(m))'",
    ),
    (
        "gdb",
        "gdb -batch -ex run -ex 'info program' --args true 2>&1 | grep -c exited",
    ),
    (
        "strace",
        "strace -f -e trace=execve true 2>&1 | grep -c exited",
    ),
    (
        "perl",
        "perl -MIPC::SysV=IPC_PRIVATE,IPC_CREAT -e 'my $s = shmget(IPC_PRIVATE, 100, IPC_CREAT|0600); print defined $s ? \"shm\\n\" : \"none\\n\"; my $q = semget(IPC_PRIVATE, 1, IPC_CREAT|0600); print defined $q ? \"sem\\n\" : \"none\\n\"; shmctl($s, 0, 0); semctl($q, 0, 0, 0)'",
    ),
    (
        "flock",
        "flock lock echo locked && (flock -n 9 && echo again) 9>lock",
    ),
    ("gzip", "seq 1000 >f && gzip f && gzip -dc f.gz | tail -1"),
    (
        "ps",
        "ps -o comm= -p $$ && sleep 0 & wait && kill -0 $$ && echo lives",
    ),
    (
        "cc",
        "printf 'int main(){return 0;}' >m.c && cc -o m m.c && ./m && echo built",
    ),
    (
        "rustc",
        "printf 'fn main(){println!(\"rust\");}' >m.rs && rustc m.rs -o m && ./m",
    ),
    (
        "cargo",
        "cargo new -q --vcs none p && cd p && cargo run -q --offline && cargo test -q --offline 2>&1 | grep -c 'test result: ok'",
    ),
];

fn in_workspace() {
    for user in [User::Ours, User::Ordinary] {
        compare(user, |place| Containment {
            write: vec![place.path("work"), place.path("home")],
            ..Containment::default()
        });
    }
}

fn in_layer() {
    for user in [User::Ours, User::Ordinary] {
        let layers = std::cell::Cell::new(0);
        compare(user, |place| {
            layers.set(layers.get() + 1);
            let name = |it| format!("{it}-{}", layers.get());
            Containment {
                layers: vec![
                    place.layer("work", &name("work")),
                    place.layer("home", &name("home")),
                ],
                ..Containment::default()
            }
        });
    }
}

/// Where the compiler that made this is; its usual way to it has a home of its own.
fn tool_chain() -> String {
    let cargo = Path::new(env!("CARGO"));
    cargo.parent().unwrap().display().to_string()
}

fn compare(user: User, contained: impl Fn(&Place) -> Containment) {
    let mut place = Place::new(user);
    let path = format!(
        "{}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        tool_chain()
    );
    place.env.insert("PATH".to_owned(), path);
    let (mut same, mut skipped) = (0, vec![]);
    for (program, script) in WORK {
        let look = format!("command -v {program}");
        if place
            .try_run(&place.sh(&look, None))
            .unwrap()
            .output
            .is_empty()
        {
            skipped.push(*program);
            continue;
        }
        let within = place
            .try_run(&place.sh(script, Some(contained(&place))))
            .unwrap();
        empty(&place);
        let outside = place.try_run(&place.sh(script, None)).unwrap();
        empty(&place);
        assert_eq!(
            (outside.exit, &outside.output),
            (within.exit, &within.output),
            "{user:?} {program}: {script}"
        );
        same += 1;
    }
    println!("{user:?}: {same} programs of daily work are the same within");
    if !skipped.is_empty() {
        println!(
            "SKIPPED, because not installed for {user:?}: {}",
            skipped.join(" ")
        );
    }
    assert!(same >= 10);
}

fn empty(place: &Place) {
    for it in ["work", "home"] {
        fs::remove_dir_all(place.path(it)).unwrap();
        fs::create_dir(place.path(it)).unwrap();
    }
    place.give();
}
