package installation

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
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

// BackupType is the media type of a backup.
const BackupType = "application/x-tar"

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

// CopyBackup copies a backup to w, and checks it meanwhile. It is an error if the backup is damaged or
// incomplete, or something else.
func CopyBackup(w io.Writer, backup io.Reader) error {
	copied := io.TeeReader(backup, w)
	if err := readArchive(copied, func(_ string, content io.Reader) error {
		_, err := io.Copy(io.Discard, content)
		return err
	}); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, copied) // what fills up the archive's last block
	return err
}

// Restore makes a data folder from a backup. It is an error if the folder has one of the files
// already. The files get their names when both are there, so a process that is ended before leaves at most a
// temporary folder. A damaged or incomplete backup leaves no files, and no folder that Restore made itself,
// except its parents.
func Restore(folder string, backup io.Reader) (err error) {
	_, noFolder := os.Stat(folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	if err := refuseDataIn(folder); err != nil {
		return err
	}
	// Only within the folder is renaming possible if that is a file system of its own.
	temporary, err := os.MkdirTemp(folder, ".berth-restore-*")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() {
		_ = os.RemoveAll(temporary)
		if err != nil && noFolder != nil {
			_ = os.Remove(folder)
		}
	}()
	if err := readArchive(backup, func(name string, content io.Reader) error {
		return datafile.Create(filepath.Join(temporary, name), content)
	}); err != nil {
		return err
	}
	if err := datafile.Pair(filepath.Join(temporary, stateFile), filepath.Join(temporary, fleetFile)); err != nil {
		return err
	}
	// Reading may have taken long.
	if err := refuseDataIn(folder); err != nil {
		return err
	}
	return moveFiles(temporary, folder)
}

// refuseDataIn is an error if the folder has one of [DataFiles].
func refuseDataIn(folder string) error {
	for _, name := range DataFiles {
		if _, err := os.Stat(filepath.Join(folder, name)); !errors.Is(err, os.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s has %s already: choose another folder, or move it away", folder, name),
				err)
		}
	}
	return nil
}

// moveFiles moves [DataFiles] from one folder to another. If it cannot move all of them, it moves none.
func moveFiles(from, to string) error {
	for n, name := range DataFiles {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			for _, moved := range DataFiles[:n] {
				_ = os.Remove(filepath.Join(to, moved))
			}
			return err
		}
	}
	return datafile.SyncFolder(to)
}

// readArchive calls each with the name and the content of each file of a backup. It is an error if the
// backup is damaged or incomplete, or has other files than [DataFiles].
func readArchive(backup io.Reader, each func(name string, content io.Reader) error) error {
	var read []string
	archive := tar.NewReader(backup)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the backup is damaged, or no backup of Berth's: %w", err)
		}
		if err != nil {
			return fmt.Errorf("reading the backup: %w", err)
		}
		if !slices.Contains(DataFiles, header.Name) || slices.Contains(read, header.Name) ||
			header.Size > maxBackupFile {
			return fmt.Errorf("no backup of Berth's has a file %.64q of %d bytes here", header.Name, header.Size)
		}
		content := &checkedContent{archive: archive, name: header.Name, want: header.PAXRecords[sumRecord],
			sum: sha256.New()}
		if err := each(header.Name, content); content.err != nil {
			return content.err
		} else if err != nil {
			return err
		}
		read = append(read, header.Name)
	}
	if len(read) < len(DataFiles) {
		return fmt.Errorf("the backup has %d of %d files", len(read), len(DataFiles))
	}
	return nil
}

// checkedContent is the content of a file in a backup. Its end is an error unless the content has the
// checksum of the archive, if that has one.
type checkedContent struct {
	archive    io.Reader
	name, want string
	sum        hash.Hash
	err        error // that reading has met
}

// Read reads from the archive.
func (c *checkedContent) Read(p []byte) (int, error) {
	n, err := c.archive.Read(p)
	_, _ = c.sum.Write(p[:n])
	if err == nil {
		return n, nil
	}
	switch got := fmt.Sprintf("%x", c.sum.Sum(nil)); {
	case errors.Is(err, io.EOF) && (c.want == "" || c.want == got):
		return n, io.EOF
	case errors.Is(err, io.EOF):
		c.err = fmt.Errorf("the backup is damaged: %s has the SHA-256 %s, expected %s", c.name, got, c.want)
	case errors.Is(err, io.ErrUnexpectedEOF):
		c.err = fmt.Errorf("the backup is damaged: it ends within %s", c.name)
	default:
		c.err = fmt.Errorf("reading the backup: %w", err)
	}
	return n, c.err
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
		transport.WriteAnswer(w, BackupType, http.StatusOK, backup.Bytes())
	})
}
