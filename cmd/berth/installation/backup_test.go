package installation_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/sim/ec2"
	"berth/shared/state"
	"berth/shared/wire/access"
)

// runFolder runs an installation with a data folder, with two instances, until the returned
// function is called.
func runFolder(t *testing.T, o installation.Options) (i *installation.Installation, end func()) {
	t.Helper()
	i, err := installation.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Loop.Run(ctx) }()
	if _, err := i.EnsureCluster(ctx, "home", 2, ec2.Machine{Type: "m5.large"}); err != nil {
		t.Fatal(err)
	}
	return i, func() {
		stop()
		<-ended
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
}

func instanceRows(t *testing.T, i *installation.Installation) []state.Row {
	t.Helper()
	rows, err := i.Store.List(t.Context(), state.Prefix("home", ""))
	if err != nil || len(rows) == 0 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows
}

// What a running installation has at the time of a backup is there after it is restored.
func TestBackupOfARunningInstallationIsRestored(t *testing.T) {
	folder, restored := t.TempDir(), filepath.Join(t.TempDir(), "new")
	i, end := runFolder(t, installation.Options{Data: folder})
	want := instanceRows(t, i)
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "http://localhost"+installation.BackupPath, nil)
	i.Server.ServeHTTP(recorder, request)
	end()
	if recorder.Code != http.StatusOK {
		t.Fatalf("status %d: %s", recorder.Code, recorder.Body)
	}
	backup := recorder.Body.Bytes()
	if err := installation.Restore(restored, bytes.NewReader(backup)); err != nil {
		t.Fatal(err)
	}
	again, end := runFolder(t, installation.Options{Data: restored})
	if diff := cmp.Diff(want, instanceRows(t, again)); diff != "" {
		t.Errorf("rows after a restore (-want +got):\n%s", diff)
	}
	end()
	if err := installation.Restore(restored, bytes.NewReader(backup)); err == nil ||
		!strings.Contains(err.Error(), "has state.db already") {
		t.Errorf("over a folder with a state: %v", err)
	}
	var offline bytes.Buffer
	if err := installation.BackupFolder(folder, &offline); err != nil {
		t.Error(err)
	}
	if err := installation.Restore(filepath.Join(t.TempDir(), "other"), &offline); err != nil {
		t.Error(err)
	}
}

// A backup is of one moment, also while much changes: its two files count the same steps, of which each
// changes the state and the fleet.
func TestBackupIsOfOneMoment(t *testing.T) {
	i, end := runFolder(t, installation.Options{Data: t.TempDir()})
	ctx, stop := context.WithCancel(t.Context())
	ended, taken := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(ended)
		for n := 1; ctx.Err() == nil; n++ {
			_ = i.Loop.Do(ctx, func() { takeStep(t, i, n) })
			select {
			case taken <- struct{}{}:
			default:
			}
		}
	}()
	backups := make([]bytes.Buffer, 10)
	for n := range backups {
		<-taken
		if err := i.Backup(t.Context(), &backups[n]); err != nil {
			t.Error(err)
		}
	}
	stop()
	<-ended
	end()
	last := 0
	for n := range backups {
		folder := filepath.Join(t.TempDir(), "restored")
		if err := installation.Restore(folder, &backups[n]); err != nil {
			t.Fatal(err)
		}
		restored, err := installation.Open(installation.Options{Data: folder})
		if err != nil {
			t.Fatal(err)
		}
		inState, inFleet := countSteps(t, restored)
		if inState != inFleet || inState < last {
			t.Errorf("backup %d: the state has %d steps, the fleet %d, the backup before %d", n, inState, inFleet, last)
		}
		last = inState
		if err := restored.Close(); err != nil {
			t.Error(err)
		}
	}
	if last == 0 {
		t.Error("nothing has happened during the backups")
	}
}

// takeStep makes one more revision of a family in the fleet, and writes their number to the state.
func takeStep(t *testing.T, i *installation.Installation, n int) {
	status, answer := i.AWS.ECS.Endpoint().ServeOperation(t.Context(), "RegisterTaskDefinition",
		[]byte(`{"family":"steps","containerDefinitions":[{"name":"main","image":"i","memory":16}]}`))
	if status != http.StatusOK {
		t.Errorf("registering a task definition: %s", answer)
	}
	_, err := i.Store.Write(t.Context(), state.Write{Any: true, Put: &state.Alias{
		Head: cluster.Head{Cluster: "home"}, Derived: "steps", ID: strconv.Itoa(n)}})
	if err != nil {
		t.Error(err)
	}
}

func countSteps(t *testing.T, i *installation.Installation) (inState, inFleet int) {
	t.Helper()
	key := state.KeyOf(&state.Alias{Head: cluster.Head{Cluster: "home"}, Derived: "steps"})
	if row, err := state.ReadRow[*state.Alias](t.Context(), i.Store, key, "steps"); err != nil {
		t.Fatal(err)
	} else if row != nil {
		inState, _ = strconv.Atoi(row.ID)
	}
	var out struct{ TaskDefinition struct{ Revision int } }
	status, answer := i.AWS.ECS.Endpoint().ServeOperation(t.Context(), "DescribeTaskDefinition",
		[]byte(`{"taskDefinition":"steps"}`))
	if status == http.StatusOK {
		if err := json.Unmarshal(answer, &out); err != nil {
			t.Fatal(err)
		}
	}
	return inState, out.TaskDefinition.Revision
}

// A backup is copied as it is.
func TestCopyBackup(t *testing.T) {
	folder := t.TempDir()
	_, end := runFolder(t, installation.Options{Data: folder})
	end()
	var backup, copied bytes.Buffer
	if err := installation.BackupFolder(folder, &backup); err != nil {
		t.Fatal(err)
	}
	if err := installation.CopyBackup(&copied, bytes.NewReader(backup.Bytes())); err != nil ||
		!bytes.Equal(backup.Bytes(), copied.Bytes()) {
		t.Errorf("%d of %d bytes, %v", copied.Len(), backup.Len(), err)
	}
}

// A caller who may only read gets no backup: it has everything that is stored.
func TestBackupIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		options installation.Options
		host    string
		status  int
	}{
		"Reader": {installation.Options{Data: t.TempDir(), Access: &access.Policy{}}, "localhost",
			http.StatusForbidden},
		"ForeignHost":   {installation.Options{Data: t.TempDir()}, "example.com", http.StatusForbidden},
		"NothingOnDisk": {installation.Options{}, "localhost", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			i, end := runFolder(t, c.options)
			defer end()
			recorder := httptest.NewRecorder()
			i.Server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "http://"+c.host+installation.BackupPath,
				nil))
			if recorder.Code != c.status || recorder.Body.Len() > 500 {
				t.Errorf("status %d and %d bytes, want %d: %.200s", recorder.Code, recorder.Body.Len(), c.status,
					recorder.Body)
			}
		})
	}
}

// A backup that is damaged or not whole leaves nothing behind.
func TestDamagedBackupIsNotRestored(t *testing.T) {
	folder := t.TempDir()
	_, end := runFolder(t, installation.Options{Data: folder})
	end()
	var whole bytes.Buffer
	if err := installation.BackupFolder(folder, &whole); err != nil {
		t.Fatal(err)
	}
	archive := func(names ...string) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, name := range names {
			content, err := os.ReadFile(filepath.Join(folder, filepath.Base(name)))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(content)
		}
		_ = w.Close()
		return out.Bytes()
	}
	flipped := bytes.Clone(whole.Bytes())
	flipped[len(flipped)-2000] ^= 1 // on the last page of fleet.db, which nothing has on it
	for name, backup := range map[string][]byte{
		"ABitIsOff": flipped,
		"NoArchive": []byte(strings.Repeat("no archive ", 100)),
		"Cut":       whole.Bytes()[:whole.Len()/2],
		"OneFile":   archive("state.db"),
		"Twice":     archive("state.db", "state.db"),
		"Elsewhere": archive("state.db", "../fleet.db"),
		"Empty":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "data")
			err := installation.Restore(at, bytes.NewReader(backup))
			for part, want := range map[string]string{"ABitIsOff": "SHA-256", "Cut": "the backup is damaged",
				"NoArchive": "no backup of Berth's", "Empty": "0 of 2 files"} {
				if err == nil || name == part && !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one that says %q", err, want)
				}
			}
			if copied := installation.CopyBackup(io.Discard, bytes.NewReader(backup)); copied == nil {
				t.Error("it is copied without an error")
			}
			if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is left: %v", err)
			}
		})
	}
}
