//! Programs that copy, move, link, pack and edit: what they write is judged by where.

use super::{Call, Danger, Judge, is_one, places};
use crate::command::Word;

impl Judge<'_> {
    /// Whether it is one of them.
    pub(super) fn on_files(&mut self, call: Call<'_>) -> bool {
        match call.name {
            "rm" => self.by_rm(call),
            "chmod" => self.by_chmod(call),
            "cp" | "gcp" | "install" => self.by_copy(call),
            "mv" => self.by_move(call),
            "ln" => self.by_link(call),
            "tar" | "gtar" | "bsdtar" => self.by_tar(call),
            "zip" => self.by_zip(call),
            "unzip" => self.by_unzip(call),
            "gzip" | "bzip2" | "xz" | "zstd" => self.by_compressor(call),
            "rsync" => self.by_rsync(call),
            "split" | "csplit" => self.by_split(call),
            "date" => self.by_date(call),
            "jq" => {}
            _ => return self.finds(call),
        }
        true
    }

    fn by_rm(&mut self, call: Call<'_>) {
        let recursive = |it: &str| {
            let long = it.len() > 2 && "--recursive".starts_with(it);
            let short = it.starts_with('-') && !it.starts_with("--") && it.contains(['r', 'R']);
            long || short
        };
        let tree = call.fixed().any(recursive) || call.args.iter().any(|it| it.fixed().is_none());
        self.add(if tree {
            Danger::DeletesTree
        } else {
            Danger::DeletesFiles
        });
    }

    /// What one has written may be made a program; that it runs is judged when it does.
    fn by_chmod(&mut self, call: Call<'_>) {
        let makes_a_program = |it: &str| {
            it.strip_suffix("+x")
                .is_some_and(|who| who.chars().all(|it| "ugoa".contains(it)))
        };
        let plain = |it: &Word| it.fixed().is_some_and(|it| !it.starts_with('-'));
        match call.args.split_first() {
            Some((mode, files))
                if mode.fixed().is_some_and(makes_a_program) && files.iter().all(plain) =>
            {
                for word in files {
                    self.writes(word);
                }
            }
            Some(_) | None => self.add(Danger::ChangesRights),
        }
    }

    fn by_copy(&mut self, call: Call<'_>) {
        let options = "-r -R -a -p -v -n -u -i -f -d -L -P -H -x -l -s -T -t> --recursive --archive --verbose --no-clobber --update --interactive \
            --preserve --preserve= --parents --no-dereference --dereference --sparse= --reflink --backup --no-target-directory \
            --target-directory> --force --link --symbolic-link --strip-trailing-slashes --suffix= -b -S= -m= -D --mode=";
        let operands = self.options(options, call.args);
        if call
            .fixed()
            .any(|it| it.starts_with("/dev/") || it.starts_with("/proc/"))
        {
            self.add(Danger::EmptiesFile);
        }
        if let Some((last, from)) = operands.split_last() {
            self.writes(last);
            // In a directory it has the name that it had.
            for word in from {
                let name = |it: &str| {
                    it.trim_end_matches('/')
                        .rsplit('/')
                        .next()
                        .map(str::to_owned)
                };
                if word
                    .fixed()
                    .and_then(name)
                    .is_some_and(|it| places::is_protected(&it))
                {
                    self.add(Danger::ProtectedFile);
                }
            }
        }
    }

    fn by_move(&mut self, call: Call<'_>) {
        let options = "-v -n -i -u -f -T -t> -b -S= --verbose --no-clobber --interactive --update --force --backup --suffix= \
            --no-target-directory --target-directory> --strip-trailing-slashes";
        // What is moved leaves its place, so that is written too.
        for word in self.options(options, call.args) {
            if word
                .fixed()
                .is_some_and(|it| matches!(it, "." | ".." | "./" | "../"))
            {
                self.add(Danger::DeletesTree);
            }
            if word.fixed().is_some_and(places::is_nowhere) {
                self.add(Danger::DeletesFiles);
            }
            self.writes(word);
        }
    }

    fn by_link(&mut self, call: Call<'_>) {
        // What is written through a link is written where it leads.
        let operands = self.options(
            "-s -v -n -r -T -i --symbolic --verbose --relative --no-dereference",
            call.args,
        );
        for word in operands {
            self.writes(word);
        }
    }

    fn by_tar(&mut self, call: Call<'_>) {
        let mut args = call.args.to_vec();
        // `tar czf x` is `tar -czf x`.
        if let Some(first) = args.first_mut()
            && let Some(text) = first.fixed().filter(|it| !it.starts_with('-'))
        {
            let dashed = format!("-{text}");
            *first = Word {
                written: dashed.clone(),
                value: crate::command::Value::Fixed(dashed),
            };
        }
        let options = "-c -x -t -v -z -j -J -p -k -O -a -h -S -f= -C= -T= -X= --create --extract --list --verbose --gzip --bzip2 --xz --zstd \
            --file= --directory= --exclude= --strip-components= --exclude-vcs --wildcards --keep-old-files --no-same-owner \
            --auto-compress --to-stdout --exclude-from= --no-recursion --numeric-owner --get --strip= --skip-old-files \
            --exclude-vcs-ignores --transform= --null --files-from= --one-top-level --totals --show-transformed-names";
        let operands = self.options(options, &args);
        let text: Vec<&str> = args.iter().filter_map(Word::fixed).collect();
        let mode = |long: &str, short: char| {
            text.iter().any(|it| {
                *it == long || (it.starts_with('-') && !it.starts_with("--") && it.contains(short))
            })
        };
        if text.iter().any(|it| it.starts_with("--transform")) && mode("--extract", 'x') {
            self.add(Danger::UnknownOption);
        }
        let call = Call {
            args: &args,
            ..call
        };
        let archives = call.values('f', &["--file"]);
        if archives
            .iter()
            .any(|it| it.is_none_or(|it| it.contains(':')))
        {
            self.add(Danger::KnownOnlyWhenRun);
        }
        if mode("--create", 'c') {
            for place in archives.into_iter().flatten().filter(|it| *it != "-") {
                self.writes_to(place);
            }
        } else if mode("--extract", 'x') {
            let to = call.values('C', &["--directory"]);
            if to.iter().any(Option::is_none) {
                self.add(Danger::KnownOnlyWhenRun);
            }
            if to.is_empty() && !self.places.at_home() {
                self.add(Danger::OutsideRoots);
            }
            for place in to.into_iter().flatten() {
                self.writes_to(place);
            }
        } else if !mode("--list", 't') {
            self.add(Danger::UnknownOption);
        }
        if operands
            .iter()
            .any(|it| !is_one(it) && it.written.starts_with(['*', '?', '$', '[']))
        {
            self.add(Danger::KnownOnlyWhenRun);
        }
    }

    fn by_zip(&mut self, call: Call<'_>) {
        let options = "-r -q -9 -0 -1 -6 -j -v -u -y -x= -i= -e --recurse-paths --quiet --exclude= --junk-paths --symlinks";
        if let Some(archive) = self.options(options, call.args).first() {
            self.writes(archive);
        }
    }

    fn by_unzip(&mut self, call: Call<'_>) {
        let only_looks = call
            .fixed()
            .any(|it| matches!(it, "-l" | "-t" | "-v" | "-Z" | "-p"));
        let operands = self.options("-l -t -v -Z -p -n -q -qq -j -d> -x= -u", call.args);
        if !only_looks && !call.fixed().any(|it| it.starts_with("-d")) && !self.places.at_home() {
            self.add(Danger::OutsideRoots);
        }
        if operands.is_empty() {
            self.add(Danger::UnknownOption);
        }
    }

    /// Only where what they are given stays as it was.
    fn by_compressor(&mut self, call: Call<'_>) {
        let stays = call.fixed().any(|it| {
            let short =
                it.starts_with('-') && !it.starts_with("--") && it.contains(['c', 'l', 't']);
            short || matches!(it, "--stdout" | "--list" | "--test" | "--to-stdout")
        });
        if stays || (call.args.is_empty() && *call.input == super::Input::Stream) {
            let options = "-c -l -t -d -v -k -q -1 -6 -9 -# --stdout --list --test --decompress --to-stdout --keep --verbose";
            self.options(options, call.args);
        } else {
            self.add(Danger::ChangesInPlace);
        }
    }

    /// Here it copies; with another machine, with programs of its own or with deletion it does more.
    fn by_rsync(&mut self, call: Call<'_>) {
        let options = "-a -v -r -n -h -i -u -z -q -c -t -p -l -P -x -L -m --archive --verbose --dry-run --progress --stats --exclude= --include= \
            --human-readable --itemize-changes --recursive --update --checksum --exclude-from= --ignore-existing --list-only \
            --info= --partial --size-only --times --links --prune-empty-dirs --max-size= --min-size=";
        let operands = self.options(options, call.args);
        if call
            .fixed()
            .any(|it| it.starts_with("--del") || it.starts_with("--remove"))
        {
            self.add(Danger::DeletesTree);
        }
        if operands
            .iter()
            .any(|it| it.fixed().is_none_or(|it| it.contains(':')))
        {
            self.add(Danger::SendsData);
        }
        let dry = call.fixed().any(|it| {
            matches!(it, "--dry-run" | "--list-only")
                || (it.starts_with('-') && !it.starts_with("--") && it.contains('n'))
        });
        if let Some((last, from)) = operands.split_last()
            && !dry
            && !from.is_empty()
        {
            self.writes(last);
        }
    }

    fn by_split(&mut self, call: Call<'_>) {
        let operands = self.options("-l= -b= -n= -d -a= --lines= --bytes= --number= --numeric-suffixes --additional-suffix= -C=", call.args);
        match operands.get(1) {
            Some(prefix) => self.writes(prefix),
            None if self.places.at_home() => {}
            None => self.add(Danger::OutsideRoots),
        }
    }

    /// A word without a plus sets the clock.
    fn by_date(&mut self, call: Call<'_>) {
        let options = "-u -R -I? -d= -r= -j --utc --universal --date= --reference= --iso-8601 --rfc-3339 --rfc-email -f= -v=";
        for word in self.options(options, call.args) {
            if !word
                .written
                .trim_start_matches(['"', '\''])
                .starts_with('+')
            {
                self.add(Danger::ChangesSystem);
            }
        }
    }
}
