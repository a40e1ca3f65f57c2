package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// An entry is a file in an archive or in the image.
type entry struct {
	name string
	mode int64
	data []byte
}

// writeArchive packs a binary with what belongs to it: a zip file for Windows, which opens those by
// itself, and else a tar.gz.
func (r *release) writeArchive(b binary) error {
	entries, err := r.archiveEntries(b)
	if err != nil {
		return err
	}
	name := r.name("_" + b.platform.os + "_" + b.platform.arch)
	if b.platform.os == "windows" {
		return r.create(name+".zip", func(w io.Writer) error { return writeZip(w, entries, r.made) })
	}
	return r.create(name+".tar.gz", func(w io.Writer) error {
		z := gzip.NewWriter(w) // its header has no time and no name
		if err := writeTar(z, entries, r.made); err != nil {
			return err
		}
		return z.Close()
	})
}

// archiveEntries returns the files of an archive: the binary, its scripts of completion, the
// licence and the README.
func (r *release) archiveEntries(b binary) ([]entry, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	entries := []entry{{filepath.Base(b.path), 0o755, program}}
	for _, name := range []string{"LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name, 0o644, text})
	}
	scripts, err := r.completionScripts()
	if err != nil {
		return nil, err
	}
	return append(entries, scripts...), nil
}

// writeTar writes the entries with one time, and without owners.
func writeTar(w io.Writer, entries []entry, made time.Time) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: made, Format: tar.FormatPAX}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeZip writes the entries with one time.
func writeZip(w io.Writer, entries []entry, made time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: made}
		header.SetMode(os.FileMode(e.mode))
		f, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// writeChecksums lists the SHA-256 of each file, as `sha256sum --check` reads it.
func (r *release) writeChecksums() error {
	slices.Sort(r.files)
	files := slices.Clone(r.files)
	return r.create(r.name("_checksums.txt"), func(w io.Writer) error {
		for _, name := range files {
			data, err := os.ReadFile(filepath.Join(r.out, name))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(data), name); err != nil {
				return err
			}
		}
		return nil
	})
}

// completionScripts returns the scripts that `berth completion` prints.
func (r *release) completionScripts() (entries []entry, err error) {
	for _, shell := range []string{"bash", "fish", "zsh"} {
		text, err := os.ReadFile(filepath.Join(r.source, "cmd", "berth", "completion", "berth."+shell))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{"completion/berth." + shell, 0o644, text})
	}
	return entries, nil
}
