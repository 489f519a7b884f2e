//! What `ask` takes in: the words, stdin, files. Memory stays bounded however much comes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use aish_proto::limits::{INPUT_BYTES, PDF_BYTES, PICTURES};

use crate::ask_args::AskArgs;
use crate::commands::binary_file;
use crate::commands::file_mention::{self, AttachedKind, PersonLocation};
use crate::commands::picture_file::{self, PictureFile};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::size;

/// Who says more says it for ever.
const ENDLESS_BYTES: u64 = 256 << 20;
/// The name that stdin has as an attachment.
const STDIN: &str = "stdin";
/// A question up to here goes with the introduction to the daemon, whatever its limits are.
const SHORT_BYTES: usize = 16 << 10;
/// Room for the mark of what was left out.
const MARK_BYTES: usize = 48;

/// What was given, before it is fitted to what the daemon takes.
#[derive(Debug, Default)]
pub struct GivenInput {
    question: InputText,
    /// The question is the words, so that a person has typed it.
    typed: bool,
    attachments: Vec<(String, InputText)>,
    pictures: Vec<PictureFile>,
    /// What a person should know about it.
    pub notes: Vec<String>,
}

/// What is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskInput {
    pub question: String,
    pub attachments: Vec<(String, String)>,
    pub pictures: Vec<PictureFile>,
}

/// A text, or its two ends with a count of the bytes between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct InputText {
    head: String,
    tail: String,
    left_out: u64,
}

/// Reads everything that goes along with a question.
pub fn read(
    args: &AskArgs,
    stdin: &mut dyn Read,
    stdin_terminal: bool,
) -> Result<GivenInput, Failure> {
    let mut given = GivenInput::default();
    let words = args.text.join(" ");
    let stdin_is_file = args.files.iter().any(|it| it == Path::new("-"));
    let stdin_is_question = words == "-" || (words.trim().is_empty() && !stdin_is_file);
    if words == "-" && (args.no_stdin || stdin_is_file) {
        return Err(Failure::new(
            Exit::USAGE,
            "`-` is stdin, and that is not to be read as the question",
        )
        .hint("give the question as words"));
    }
    let wanted = !args.no_stdin && (words == "-" || stdin_is_file || !stdin_terminal);
    let from_stdin = if wanted {
        let failed = |error: io::Error| {
            if error.kind() == io::ErrorKind::FileTooLarge {
                let most = ENDLESS_BYTES >> 20;
                return Failure::new(
                    Exit::LIMIT,
                    format!("stdin does not end: more than {most} MiB were read"),
                )
                .hint("head -c 1M or tail -c 1M before it takes a part");
            }
            Failure::new(Exit::FAILED, format!("cannot read stdin: {error}"))
                .hint("--no-stdin leaves it alone")
        };
        given.take(STDIN, stdin, &failed)?
    } else {
        InputText::default()
    };
    if stdin_is_question {
        given.question = from_stdin;
    } else {
        given.question.head = words;
        given.typed = true;
        if !from_stdin.is_empty() {
            given.attachments.push((STDIN.to_owned(), from_stdin));
        }
    }
    for (name, text) in &args.attached {
        given.add_text(name.clone(), text.clone());
    }
    for path in args.files.iter().filter(|it| *it != Path::new("-")) {
        given.add_file(path)?;
    }
    if given.question.is_empty() {
        return Err(Failure::new(Exit::USAGE, "nothing to ask")
            .hint("aishctl ask \"why?\", or the question on stdin"));
    }
    Ok(given)
}

impl GivenInput {
    /// The question as far as it is kept.
    pub fn question(&self) -> &str {
        &self.question.head
    }

    /// Whether every daemon takes it as it is, in one line.
    pub fn is_short(&self) -> bool {
        let texts = self
            .attachments
            .iter()
            .map(|(name, text)| name.len() + text.bytes());
        let pictures = self.pictures.iter().map(|it| it.base64.len());
        self.question.bytes() + texts.chain(pictures).sum::<usize>() <= SHORT_BYTES
    }

    /// Adds the files that the words name with an `@`. What came over a pipe names none: somebody else may have written
    /// it.
    pub fn add_named(&mut self, here: &PersonLocation) -> Result<(), Failure> {
        if !self.typed {
            return Ok(());
        }
        for attached in file_mention::read(&self.question.head, here)? {
            match attached.kind {
                AttachedKind::Picture(picture) => self.add_picture(picture)?,
                AttachedKind::File { .. } | AttachedKind::Names { .. } => {
                    self.notes.push(file_mention::note(&attached));
                    self.add_text(attached.name, attached.text);
                }
            }
        }
        Ok(())
    }

    /// A text that goes along.
    pub fn add_text(&mut self, name: String, text: String) {
        let text = InputText {
            head: text,
            ..InputText::default()
        };
        self.attachments.push((name, text));
    }

    fn add_file(&mut self, path: &PathBuf) -> Result<(), Failure> {
        let shown = path.display();
        let failed = |error: io::Error| {
            let failure = Failure::new(Exit::USAGE, format!("cannot read {shown}: {error}"));
            if error.kind() == io::ErrorKind::IsADirectory {
                failure.hint(format!(
                    "@{shown}/ in the question takes the names in it along"
                ))
            } else {
                failure
            }
        };
        let mut file = File::open(path).map_err(failed)?;
        let name = path
            .file_name()
            .map_or_else(|| shown.to_string(), |it| it.to_string_lossy().into_owned());
        let pictures = self.pictures.len();
        let text = self.take(&name, &mut file, &failed)?;
        if self.pictures.len() == pictures {
            self.attachments.push((name, text));
        }
        Ok(())
    }

    /// Reads a text, or puts what is a picture beside the texts, which is none then.
    fn take(
        &mut self,
        name: &str,
        from: &mut dyn Read,
        failed: &dyn Fn(io::Error) -> Failure,
    ) -> Result<InputText, Failure> {
        let mut head = vec![];
        from.take(binary_file::LOOKED_AT_BYTES as u64)
            .read_to_end(&mut head)
            .map_err(failed)?;
        let begin = head.get(..picture_file::LOOKED_AT_BYTES).unwrap_or(&head);
        if let Some(kind) = picture_file::kind_of(name, begin)? {
            let picture = picture_file::read(name, kind, head, from)?;
            self.add_picture(picture)?;
            return Ok(InputText::default());
        }
        binary_file::refuse(name, &head)?;
        let is_all = head.len() < binary_file::LOOKED_AT_BYTES;
        let head = io::Cursor::new(head);
        // What ended is not read again: a terminal would want a second Ctrl-D.
        let (text, lossy) = match is_all {
            true => swallow(&mut { head }),
            false => swallow(&mut head.chain(from)),
        }
        .map_err(failed)?;
        self.note_lossy(name, lossy);
        Ok(text)
    }

    pub fn add_picture(&mut self, picture: PictureFile) -> Result<(), Failure> {
        let bytes: u64 = self.pictures.iter().map(|it| it.bytes).sum();
        if bytes + picture.bytes > PDF_BYTES as u64 || self.pictures.len() == PICTURES {
            return Err(picture_file::too_many(&picture.name));
        }
        self.notes.push(picture.note());
        self.pictures.push(picture);
        Ok(())
    }

    fn note_lossy(&mut self, name: &str, lossy: bool) {
        if lossy {
            self.notes.push(format!(
                "{name} is not UTF-8; the bytes that are no text were replaced"
            ));
        }
    }

    /// Fits everything into `limit` bytes. Each text that is too long loses its middle, the shorter
    /// ones stay whole; the notes say what was left out.
    pub fn fit(self, limit: usize, strict: bool) -> Result<(AskInput, Vec<String>), Failure> {
        let Self {
            question,
            typed: _,
            attachments,
            pictures,
            mut notes,
        } = self;
        let lengths: Vec<usize> = std::iter::once(question.bytes())
            .chain(
                attachments
                    .iter()
                    .map(|(name, text)| text.bytes() + name.len()),
            )
            .collect();
        let share = share(&lengths, limit);
        let mut fit = |name: &str, text: InputText, room: usize| {
            let whole = text.bytes() as u64 + text.left_out;
            let text = text.fit(room);
            if text.left_out > 0 {
                notes.push(format!(
                    "{name} is {}; its middle was left out ({})",
                    size::bytes(whole),
                    size::bytes(text.left_out)
                ));
            }
            text
        };
        let question = fit("the question", question, share);
        let attachments: Vec<(String, InputText)> = attachments
            .into_iter()
            .map(|(name, text)| {
                let room = share.saturating_sub(name.len());
                let text = fit(&name, text, room);
                (name, text)
            })
            .collect();
        let cut = question.left_out > 0 || attachments.iter().any(|(_, it)| it.left_out > 0);
        if cut && strict {
            return Err(Failure::new(
                Exit::LIMIT,
                format!("the input is over {}", size::bytes(limit as u64)),
            )
            .hint("without --strict its middle is left out"));
        }
        let attachments = attachments
            .into_iter()
            .map(|(name, text)| (name, text.join()))
            .collect();
        Ok((
            AskInput {
                question: question.join(),
                attachments,
                pictures,
            },
            notes,
        ))
    }
}

/// The most that each of these may have so that all fit: what the short ones leave goes to the long ones.
fn share(lengths: &[usize], limit: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut left = limit;
    for (at, length) in sorted.iter().enumerate() {
        let each = left / (sorted.len() - at);
        if *length > each {
            return each;
        }
        left -= length;
    }
    usize::MAX
}

impl InputText {
    fn is_empty(&self) -> bool {
        self.left_out == 0 && self.head.trim().is_empty() && self.tail.is_empty()
    }

    fn bytes(&self) -> usize {
        let mark = if self.left_out > 0 { MARK_BYTES } else { 0 };
        self.head.len() + self.tail.len() + mark
    }

    fn fit(self, room: usize) -> Self {
        if self.bytes() <= room {
            return self;
        }
        let Self {
            mut head,
            mut tail,
            mut left_out,
        } = self;
        if left_out == 0 {
            let middle = head.floor_char_boundary(head.len() / 2);
            tail = head.split_off(middle);
        }
        let half = room.saturating_sub(MARK_BYTES) / 2;
        let before = head.len() + tail.len();
        head.truncate(head.floor_char_boundary(half.min(head.len())));
        let from = tail.ceil_char_boundary(tail.len().saturating_sub(half));
        tail.drain(..from);
        left_out += (before - head.len() - tail.len()) as u64;
        Self {
            head,
            tail,
            left_out,
        }
    }

    fn join(self) -> String {
        if self.left_out == 0 {
            return self.head + &self.tail;
        }
        format!(
            "{}\n[… {} left out …]\n{}",
            self.head,
            size::bytes(self.left_out),
            self.tail
        )
    }
}

/// Reads to the end and keeps at most `INPUT_BYTES` of each end; true: some bytes were no text.
fn swallow(from: &mut dyn Read) -> io::Result<(InputText, bool)> {
    let mut head = Vec::new();
    from.take(INPUT_BYTES as u64).read_to_end(&mut head)?;
    let mut tail: Vec<u8> = Vec::new();
    let mut left_out = 0u64;
    // What ended is not read again: a terminal would want a second Ctrl-D.
    let mut ended = head.len() < INPUT_BYTES;
    let mut page = vec![0; if ended { 0 } else { 64 << 10 }];
    while !ended {
        let read = match from.read(&mut page) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        ended = read == 0;
        tail.extend_from_slice(page.get(..read).unwrap_or_default());
        if ended || tail.len() >= 2 * INPUT_BYTES {
            let over = tail.len().saturating_sub(INPUT_BYTES);
            tail.drain(..over);
            left_out += over as u64;
        }
        if left_out > ENDLESS_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
    if left_out == 0 {
        head.extend(tail);
        let lossy = std::str::from_utf8(&head).is_err();
        let head = String::from_utf8_lossy(&head).into_owned();
        return Ok((
            InputText {
                head,
                ..InputText::default()
            },
            lossy,
        ));
    }
    // The cuts may have gone through a character.
    if let Err(error) = std::str::from_utf8(&head)
        && error.error_len().is_none()
    {
        left_out += (head.len() - error.valid_up_to()) as u64;
        head.truncate(error.valid_up_to());
    }
    let torn = tail
        .iter()
        .take(3)
        .take_while(|it| **it & 0xC0 == 0x80)
        .count();
    tail.drain(..torn);
    left_out += torn as u64;
    let lossy = std::str::from_utf8(&head).is_err() || std::str::from_utf8(&tail).is_err();
    let text = InputText {
        head: String::from_utf8_lossy(&head).into_owned(),
        tail: String::from_utf8_lossy(&tail).into_owned(),
        left_out,
    };
    Ok((text, lossy))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn args(words: &str) -> AskArgs {
        AskArgs {
            text: words
                .split(' ')
                .filter(|it| !it.is_empty())
                .map(Into::into)
                .collect(),
            ..AskArgs::default()
        }
    }

    #[track_caller]
    fn check(
        args: &AskArgs,
        stdin: &[u8],
        terminal: bool,
        question: &str,
        attached: &[(&str, &str)],
    ) {
        let given = read(args, &mut &stdin[..], terminal).unwrap();
        let (input, _) = given.fit(INPUT_BYTES, true).unwrap();
        let attached: Vec<(String, String)> = attached
            .iter()
            .map(|(n, t)| ((*n).into(), (*t).into()))
            .collect();
        assert_eq!(
            AskInput {
                question: question.into(),
                attachments: attached,
                pictures: vec![],
            },
            input
        );
    }

    #[test]
    fn stdin_is_context_with_a_question_and_the_question_without() {
        check(&args("why so"), b"", false, "why so", &[]);
        check(&args("why"), b"diff", false, "why", &[("stdin", "diff")]);
        check(&args("why"), b"typed later", true, "why", &[]);
        check(&args(""), b"q", false, "q", &[]);
        check(&args("-"), b"q", false, "q", &[]);
        check(&args("-"), b"q", true, "q", &[]);
        check(
            &AskArgs {
                no_stdin: true,
                ..args("why")
            },
            b"diff",
            false,
            "why",
            &[],
        );
        check(
            &AskArgs {
                files: vec!["-".into()],
                ..args("why")
            },
            b"diff",
            false,
            "why",
            &[("stdin", "diff")],
        );
    }

    #[test]
    fn nothing_to_ask_is_a_usage_error_and_does_not_wait_for_a_terminal() {
        for (args, stdin, terminal) in [
            (args(""), "", false),
            (args(""), "typed", true),
            (args(" "), " \n", false),
        ] {
            let failure = read(&args, &mut stdin.as_bytes(), terminal).unwrap_err();
            assert_eq!(Exit::USAGE, failure.exit);
        }
    }

    #[test]
    fn files_go_along_by_name_and_bad_bytes_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.txt");
        std::fs::write(&path, b"ok \xff end").unwrap();
        let with_file = AskArgs {
            files: vec![path],
            ..args("why")
        };
        check(
            &with_file,
            b"",
            false,
            "why",
            &[("a.txt", "ok \u{fffd} end")],
        );
        let given = read(&with_file, &mut io::empty(), false).unwrap();
        assert!(
            given
                .notes
                .iter()
                .any(|it| it.starts_with("a.txt is not UTF-8"))
        );
        let missing = AskArgs {
            files: vec![directory.path().join("none")],
            ..args("why")
        };
        assert_eq!(
            Exit::USAGE,
            read(&missing, &mut io::empty(), false).unwrap_err().exit
        );
    }

    #[test]
    fn too_much_keeps_head_and_tail_and_says_so() {
        let mut stdin = b"first".to_vec();
        stdin.extend(vec![b'x'; 5 << 20]);
        stdin.extend(b"last");
        let given = || read(&args("why"), &mut &stdin[..], false).unwrap();
        let (input, notes) = given().fit(INPUT_BYTES, false).unwrap();
        let text = &input.attachments[0].1;
        assert!(text.starts_with("firstx") && text.ends_with("xlast"));
        assert!(text.contains("\n[… 4.0 MiB left out …]\n"), "{notes:?}");
        assert!(text.len() + "why".len() <= INPUT_BYTES && text.len() > INPUT_BYTES - 200);
        assert_eq!(
            vec!["stdin is 5.0 MiB; its middle was left out (4.0 MiB)"],
            notes
        );
        assert_eq!(
            Exit::LIMIT,
            given().fit(INPUT_BYTES, true).unwrap_err().exit
        );
    }

    proptest! {
        #[test]
        fn whatever_is_given_fits(texts in proptest::collection::vec("[a日\u{1f642}]{0,400}", 1..5), limit in 300usize..2000) {
            let mut given = GivenInput::default();
            let total: usize = texts.iter().map(|it| it.len() + 1).sum();
            given.question.head = texts[0].clone();
            given.attachments = texts[1..].iter().map(|it| ("n".to_owned(), InputText { head: it.clone(), ..InputText::default() })).collect();
            let (input, notes) = given.fit(limit, false).unwrap();
            let sent = input.question.len() + input.attachments.iter().map(|(n, t)| n.len() + t.len()).sum::<usize>();
            prop_assert!(sent <= limit.max(total));
            prop_assert!(sent <= limit || total <= limit, "{sent} of {limit}");
            prop_assert_eq!(notes.is_empty(), total - 1 <= limit, "{:?}", notes);
        }
    }
}
