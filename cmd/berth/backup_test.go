//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no backup is not reported as one, and leaves no file.
func TestBackupOfSomethingElse(t *testing.T) {
	for name, mediaType := range map[string]string{"APage": "text/html", "NoArchive": "application/x-tar"} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", mediaType)
				_, _ = w.Write([]byte("<html>Sign in</html>"))
			}))
			defer server.Close()
			file := filepath.Join(t.TempDir(), "backup.tar")
			code, out, errs := berth("backup", file, "--endpoint", server.URL)
			if code != 1 || out != "" || !strings.Contains(errs, "of Berth's") && !strings.Contains(errs, "damaged") {
				t.Errorf("exit code %d, %q, %q", code, out, errs)
			}
			if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) > 0 {
				t.Errorf("files are left: %v, %v", left, err)
			}
		})
	}
}

// Ctrl-C ends a restore from a pipe that is silent. Nothing is left.
func TestRestoreIsInterrupted(t *testing.T) {
	folder := t.TempDir()
	data, backup := filepath.Join(folder, "data"), filepath.Join(folder, "backup.tar")
	up := startChild(t, "berth", "up", "--nodes", "1", "--listen", "127.0.0.1:0", "--data", data)
	up.waitForEndpoint()
	if code := up.interrupt(); code != 0 {
		t.Fatalf("berth up: exit code %d", code)
	}
	if code, _, errs := berth("backup", backup, "--data", data); code != 0 {
		t.Fatalf("backup: exit code %d, %s", code, errs)
	}
	if code, _, errs := berth("backup", backup, "--data", data); code != 1 ||
		!strings.Contains(errs, backup+" exists already") {
		t.Errorf("over a file: exit code %d, %s", code, errs)
	}
	whole, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	pipe, restored := filepath.Join(folder, "pipe"), filepath.Join(folder, "restored")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, "berth", "restore", pipe, "--data", restored)
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Write(whole[:len(whole)/4]); err != nil {
		t.Fatal(err)
	}
	if code := c.interrupt(); code != 130 {
		_, errs := c.outputSoFar()
		t.Errorf("exit code %d, %s", code, errs)
	}
	if _, err := os.Stat(restored); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	if code, _, errs := berth("restore", filepath.Join(folder, "nowhere"), "--data", restored); code != 1 ||
		!strings.Contains(errs, "reading the backup") {
		t.Errorf("of no file: exit code %d, %s", code, errs)
	}
}
