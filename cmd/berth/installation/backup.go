package installation

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/datafile"
	"berth/shared/wire"
	"berth/shared/wire/transport"
)

// BackupPath is where the server gives a backup of its data folder to callers who may change
// things.
const BackupPath = "/backup"

// maxBackupFile bounds a file that is restored, in bytes: far more than the largest cluster needs.
const maxBackupFile = 8 << 30

// DataFiles are the files of a data folder, in the order in which a backup has them.
var DataFiles = []string{stateFile, fleetFile}

// Backup writes both files of the data folder to w, as a tar archive. They are copied while no
// function runs. Calls wait for the copying, not for w.
func (i *Installation) Backup(ctx context.Context, w io.Writer) error {
	if i.options.Data == "" {
		return cluster.Errorf(cluster.CodeInvalidRequest,
			"This Berth keeps nothing on disk, so there is nothing to back up.")
	}
	var state, fleet bytes.Buffer
	var failed error
	if err := i.Loop.Do(ctx, func() {
		failed = errors.Join(i.Store.WriteBackup(&state), i.AWS.WriteBackup(&fleet))
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	return writeArchive(w, &state, &fleet)
}

// BackupFolder writes a backup of a data folder that no process has open.
func BackupFolder(folder string, w io.Writer) error {
	copies := make([]bytes.Buffer, len(DataFiles))
	for n, name := range DataFiles {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err != nil {
			return err // opening it would make an empty one
		}
		f, err := datafile.Open(path, nil)
		if err != nil {
			return err
		}
		_, err = f.WriteTo(&copies[n])
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return writeArchive(w, &copies[0], &copies[1])
}

// sumRecord is the record of a file in the archive that has its SHA-256, in hexadecimal digits. Backups of
// earlier versions have none.
const sumRecord = "BERTH.sha256"

// writeArchive writes the copies of [DataFiles], in their order, each with its checksum.
func writeArchive(w io.Writer, copies ...*bytes.Buffer) error {
	archive := tar.NewWriter(w)
	for n, name := range DataFiles {
		header := tar.Header{
			Name: name, Mode: 0o600, Size: int64(copies[n].Len()), ModTime: time.Now().Truncate(time.Second),
			Format:     tar.FormatPAX,
			PAXRecords: map[string]string{sumRecord: fmt.Sprintf("%x", sha256.Sum256(copies[n].Bytes()))},
		}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := copies[n].WriteTo(archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

// Restore makes a data folder from a backup. It is an error if the folder has one of the files
// already. A damaged or incomplete backup leaves no files, and no folder that Restore made itself, except its
// parents.
func Restore(folder string, backup io.Reader) (err error) {
	_, noFolder := os.Stat(folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	for _, name := range DataFiles {
		if _, err := os.Stat(filepath.Join(folder, name)); !errors.Is(err, os.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s has %s already: choose another folder, or move it away", folder, name),
				err)
		}
	}
	var made []string
	defer func() {
		for _, path := range made {
			if err != nil {
				_ = os.Remove(path)
			}
		}
		if err != nil && noFolder != nil {
			_ = os.Remove(folder)
		}
	}()
	archive := tar.NewReader(backup)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the backup is damaged, or no backup of Berth's: %w", err)
		}
		path := filepath.Join(folder, filepath.Base(header.Name))
		if !slices.Contains(DataFiles, header.Name) || slices.Contains(made, path) || header.Size > maxBackupFile {
			return fmt.Errorf("no backup of Berth's has a file %.64q of %d bytes here", header.Name, header.Size)
		}
		sum := sha256.New()
		if err := datafile.Create(path, io.TeeReader(archive, sum)); err != nil {
			return err
		}
		made = append(made, path)
		if want, got := header.PAXRecords[sumRecord], fmt.Sprintf("%x", sum.Sum(nil)); want != "" && want != got {
			return fmt.Errorf("the backup is damaged: %s has the SHA-256 %s, expected %s", header.Name, got, want)
		}
	}
	if len(made) < len(DataFiles) {
		return fmt.Errorf("the backup has %d of %d files", len(made), len(DataFiles))
	}
	return datafile.Pair(filepath.Join(folder, stateFile), filepath.Join(folder, fleetFile))
}

// serveBackup answers GET requests at [BackupPath], and passes on all others.
func (i *Installation) serveBackup(guard transport.Guard, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != BackupPath || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		const operation = "BackupData"
		err := guard.Admit(r)
		var backup bytes.Buffer
		if err == nil {
			err = guard.Run(r.Context(), operation, func() error { return i.Backup(r.Context(), &backup) })
		}
		if err != nil {
			wire.WriteRefusal(w, r, transport.PublicError(err))
			return
		}
		guard.LogChange(r.Context(), operation, func() string { return "data folder" })
		transport.WriteAnswer(w, "application/x-tar", http.StatusOK, backup.Bytes())
	})
}
