//! Where a download goes, and how nothing incomplete is left there.

use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::exit::USAGE;

/// What the user asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Target {
    /// The target of `url` under the option `-o`, one of `several` or alone.
    pub fn choose(option: Option<&Path>, url: &Url, several: bool) -> Result<Target, Failure> {
        match option {
            None => Ok(Target::File(file_name(url).into())),
            Some(path) if path.as_os_str() == "-" => Ok(Target::Stdout),
            Some(path) if path.is_dir() => Ok(Target::File(path.join(file_name(url)))),
            Some(path) if several && !is_special(path) => Err(Failure::new(
                USAGE,
                format!(
                    "{} is not a directory; several files need one",
                    path.display()
                ),
            )),
            Some(path) => Ok(Target::File(path.to_owned())),
        }
    }
}

/// The last part of the URL's path, as a plain file name.
fn file_name(url: &Url) -> String {
    let last = url.path().rsplit('/').next().unwrap_or_default();
    let name = percent_decode_str(last).decode_utf8_lossy();
    let name = name.replace(['/', '\0'], "_");
    match name.as_str() {
        "" | "." | ".." => "index.html".into(),
        _ => name,
    }
}

/// Devices and pipes are written to directly.
fn is_special(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// An open target. Dropped before [`Output::finish`], a file leaves nothing.
pub struct Output {
    writer: Option<Box<dyn Write>>,
    /// The temporary and the final name.
    rename: Option<(PathBuf, PathBuf)>,
    name: String,
}

impl Output {
    /// Opens `target`.
    pub fn open(target: Target) -> Result<Output, Failure> {
        let path = match target {
            Target::Stdout => {
                return Ok(Output {
                    writer: Some(Box::new(io::stdout())),
                    rename: None,
                    name: "standard output".into(),
                })
            }
            Target::File(path) => path,
        };

        let name = path.display().to_string();
        let fail = |e: io::Error| Failure::new(LOCAL, format!("cannot write {name}: {e}"));
        if is_special(&path) {
            let file = File::options().write(true).open(&path).map_err(fail)?;
            return Ok(Output {
                writer: Some(Box::new(file)),
                rename: None,
                name,
            });
        }

        let mut part = path.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).map_err(fail)?;
        Ok(Output {
            writer: Some(Box::new(file)),
            rename: Some((part, path)),
            name,
        })
    }

    /// Appends `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.writer {
            Some(writer) => writer
                .write_all(bytes)
                .map_err(|e| Failure::new(LOCAL, format!("cannot write {}: {e}", self.name))),
            None => Ok(()),
        }
    }

    /// Everything was written: the file gets its name.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let fail = |e: io::Error| Failure::new(LOCAL, format!("cannot finish {}: {e}", self.name));
        if let Some(mut writer) = self.writer.take() {
            writer.flush().map_err(fail)?;
        }
        if let Some((part, path)) = &self.rename {
            std::fs::rename(part, path).map_err(fail)?;
            self.rename = None;
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.rename {
            if let Err(e) = std::fs::remove_file(part) {
                eprintln!("mpq: cannot remove {}: {e}", part.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_cannot_choose_a_directory() {
        for (url, name) in [
            ("https://h/a/b.bin?c=d", "b.bin"),
            ("https://h/a%20b", "a b"),
            ("https://h/", "index.html"),
            ("https://h/a/", "index.html"),
            ("https://h/..%2F..%2Fetc%2Fpasswd", ".._.._etc_passwd"),
            ("https://h/x%00y", "x_y"),
        ] {
            assert_eq!(file_name(&Url::parse(url).unwrap()), name, "{url}");
        }
    }

    #[test]
    fn only_a_finished_output_leaves_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let open = || Output::open(Target::File(path.clone())).unwrap();
        let names = || std::fs::read_dir(dir.path()).unwrap().count();

        let mut output = open();
        output.write(b"half").unwrap();
        drop(output);
        assert_eq!(names(), 0);

        let mut output = open();
        output.write(b"whole").unwrap();
        output.finish().unwrap();
        drop(output);
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(), 1);
    }
}
