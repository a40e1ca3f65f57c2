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
		return c.Download(ctx, "backup", installation.BackupPath[1:], w)
	}
	if b.File == "-" {
		return write(s.out)
	}
	f, err := os.OpenFile(b.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(b.File))
	}
	_, err = fmt.Fprintf(s.out, "Backup written to %s. `berth restore %s` makes a data folder of it.\n", b.File, b.File)
	return err
}

// restoreCommand makes a data folder from a backup.
type restoreCommand struct {
	File string `arg:"" help:"A backup; - is the standard input."`
	Data string `default:".berth" help:"The data folder to make." type:"path"`
}

// Run restores both files, or none.
func (r *restoreCommand) Run(s *streams) error {
	in := io.Reader(os.Stdin)
	if r.File != "-" {
		f, err := os.Open(r.File)
		if err != nil {
			return fmt.Errorf("reading the backup: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	if err := installation.Restore(r.Data, in); err != nil {
		return fmt.Errorf("restoring %s: %w", r.File, err)
	}
	_, err := fmt.Fprintf(s.out, "Restored to %s. `berth up --data %s` continues from there.\n", r.Data, r.Data)
	return err
}
