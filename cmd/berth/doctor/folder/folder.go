// Package folder reads what package doctor judges from a data folder of `berth up`: whether its
// files are whole, belong together, and are read by this version. It changes nothing in the folder.
// In comes its path; out comes a [doctor.Folder]. Start at [Inspect].
package folder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"berth/cmd/berth/doctor"
	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/datafile"
)

// Inspect reads a data folder that no process has open: what opening would change, it changes in a
// copy. The account must be that of the folder.
func Inspect(path string, account cluster.Account) (s *doctor.Folder, err error) {
	s = &doctor.Folder{Path: path}
	for _, name := range installation.DataFiles {
		f := doctor.FolderFile{Name: name, Err: datafile.Check(filepath.Join(path, name))}
		if info, err := os.Stat(filepath.Join(path, name)); err == nil {
			f.Size = info.Size()
		}
		s.Files = append(s.Files, f)
	}
	if !s.IsWhole() {
		return s, nil
	}
	scratch, err := os.MkdirTemp("", "berth-inspect-")
	if err != nil {
		return nil, fmt.Errorf("copying the data folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	for _, name := range installation.DataFiles {
		if err := copyFile(filepath.Join(scratch, name), filepath.Join(path, name)); err != nil {
			return nil, fmt.Errorf("copying the data folder: %w", err)
		}
	}
	s.Pair = datafile.Pair(filepath.Join(scratch, installation.DataFiles[0]),
		filepath.Join(scratch, installation.DataFiles[1]))
	if s.Pair != nil {
		s.Pair = nameOriginal(s.Pair, scratch, path)
		return s, nil
	}
	i, err := installation.Open(installation.Options{Data: scratch, Account: account})
	if err != nil {
		s.Content = nameOriginal(err, scratch, path)
		return s, nil
	}
	return s, i.Close()
}

// nameOriginal returns an error about the copy with the paths of the folder: the copy is removed before
// anybody reads the error.
func nameOriginal(err error, scratch, path string) error {
	return errors.New(strings.ReplaceAll(err.Error(), scratch, filepath.Clean(path)))
}

// copyFile copies a file to one that does not exist yet.
func copyFile(to, from string) error {
	in, err := os.Open(from) //nolint:gosec // the user's choice
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()                                     // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // in our own folder
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
