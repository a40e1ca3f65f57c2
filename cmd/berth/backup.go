package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"berth/cmd/berth/client"
	"berth/cmd/berth/installation"
)

// backupCommand writes a backup of a data folder: of a running `berth up`, or of a folder that no
// process has open.
type backupCommand struct {
	client.Endpoint
	File string `arg:"" help:"The file to write, which must not exist yet; - is the standard output."`
	Data string `help:"Folder of a Berth that does not run." type:"existingdir" placeholder:"FOLDER"`
}

// Run writes the backup, whole or not at all.
func (b *backupCommand) Run(ctx context.Context, s *streams) error {
	write := func(w io.Writer) error {
		if b.Data != "" {
			return installation.BackupFolder(b.Data, w)
		}
		c, err := client.New(ctx, b.Endpoint)
		if err != nil {
			return err
		}
		return c.Download(ctx, "backup", installation.BackupPath[1:], installation.BackupType,
			func(backup io.Reader) error { return installation.CopyBackup(w, backup) })
	}
	if b.File == "-" {
		return write(s.out)
	}
	// The name is free before the long work, and still when that is done.
	if err := refuseFile(b.File); err != nil {
		return err
	}
	f, err := createWholeFile(b.File)
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	if err := f.write(func(w io.Writer) error { return errors.Join(write(w), refuseFile(b.File)) }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "Backup written to %s. `berth restore %s` makes a data folder of it.\n", b.File, b.File)
	return err
}

// refuseFile is an error if there is a file of the name: a backup never replaces one.
func refuseFile(name string) error {
	_, err := os.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("writing the backup: %w", err)
	}
	return fmt.Errorf("%s exists already: choose another name for the backup, or move it away", name)
}

// restoreCommand makes a data folder from a backup.
type restoreCommand struct {
	File string `arg:"" help:"A backup; - is the standard input."`
	Data string `default:".berth" help:"The data folder to make." type:"path"`
}

// Run restores both files, or none.
func (r *restoreCommand) Run(ctx context.Context, s *streams) error {
	in := readUntilDone(ctx, r.File)
	defer func() { _ = in.Close() }() // it was only read
	if err := installation.Restore(r.Data, in); err != nil {
		return fmt.Errorf("restoring %s: %w", r.File, err)
	}
	_, err := fmt.Fprintf(s.out, "Restored to %s. `berth up --data %s` continues from there.\n", r.Data, r.Data)
	return err
}

// readUntilDone reads a file, or the standard input if its name is -, until ctx ends. A pipe may be silent
// for any time, even while it is opened, so it is read in the background.
func readUntilDone(ctx context.Context, name string) io.ReadCloser {
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		f, err := os.Stdin, error(nil)
		if name != "-" {
			f, err = os.Open(name)
		}
		if err == nil {
			_, err = io.Copy(in, f)
			_ = f.Close() // it was only read
		}
		_ = in.CloseWithError(err)
	}()
	return out
}
