package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// host is the platform of this machine.
var host = runtime.GOOS + "/" + runtime.GOARCH

// buildRelease clones the checkout's last commit into a folder of its own, and builds a release for
// this machine from it. Changes that are not committed are not in it.
func buildRelease(t *testing.T) *release {
	t.Helper()
	source := filepath.Join(t.TempDir(), "source")
	if said, err := exec.Command("git", "clone", "--quiet", "../..", source).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v: %s", err, said)
	}
	r := &release{source: source, out: filepath.Join(t.TempDir(), "out"), progress: t.Output()}
	if err := r.choosePlatforms(host, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// read returns the one file of the release whose name ends so.
func (r *release) read(t *testing.T, ending string) []byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.out, "*"+ending))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d files end with %s, want one (%v)", len(found), ending, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unpack returns the files of a tar by name.
func unpack(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(from); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// unpackArchive writes the archive's program into a folder, and returns its path and all files.
func unpackArchive(t *testing.T, r *release) (program string, files map[string][]byte) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(r.read(t, ".tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	files = unpack(t, z)
	program = filepath.Join(t.TempDir(), "berth")
	if err := os.WriteFile(program, files["berth"], 0o755); err != nil {
		t.Fatal(err)
	}
	return program, files
}

// Two builds of a commit in two folders have the same bytes, and what is in them runs.
func TestRelease(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the archive for Windows is a zip file, and there is no image")
	}
	r, again := buildRelease(t), buildRelease(t)
	if first, second := r.read(t, "_checksums.txt"), again.read(t, "_checksums.txt"); !bytes.Equal(first, second) {
		t.Errorf("two builds of one commit differ:\n%s\n%s", first, second)
	}
	program, files := unpackArchive(t, r)
	t.Run("Checksums", func(t *testing.T) {
		for _, line := range strings.Split(strings.TrimSpace(string(r.read(t, "_checksums.txt"))), "\n") {
			sum, name, _ := strings.Cut(line, "  ")
			if got := fmt.Sprintf("%x", sha256.Sum256(r.read(t, name))); got != sum {
				t.Errorf("%s has the checksum %s, want %s", name, got, sum)
			}
		}
	})
	t.Run("Archive", func(t *testing.T) {
		for _, name := range []string{"LICENSE", "README.md", "completion/berth.bash", "completion/berth.zsh", "completion/berth.fish"} {
			if len(files[name]) == 0 {
				t.Errorf("the archive has no %s", name)
			}
		}
		commit, err := exec.Command("git", "-C", r.source, "rev-parse", "HEAD").Output()
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
		if want := strings.TrimSpace(string(commit)); err != nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), r.version) {
			t.Errorf("berth --version: %v, %q, want %s and %s", err, out, r.version, want)
		}
	})
	t.Run("SBOM", func(t *testing.T) { checkSBOM(t, r, program) })
	t.Run("Image", func(t *testing.T) { checkImage(t, r, files["berth"]) })
	t.Run("ImageRuns", func(t *testing.T) { runImage(t, r) })
}

// checkSBOM compares the document with what the Go command prints of the binary.
func checkSBOM(t *testing.T, r *release, program string) {
	var document cyclonedx.BOM
	if err := json.Unmarshal(r.read(t, "_sbom.cdx.json"), &document); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range *document.Components {
		if c.Name != "stdlib" {
			got = append(got, c.Name+" "+c.Version)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			want = append(want, f[1]+" "+f[2])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the SBOM lists\n%q\nwant\n%q", got, want)
	}
}

// checkImage follows the image's descriptors from its index to the program. Each blob must have the
// digest by which it is named.
func checkImage(t *testing.T, r *release, program []byte) {
	if runtime.GOOS != "linux" {
		t.Skip("images are for Linux")
	}
	files := unpack(t, bytes.NewReader(r.read(t, "_image.tar")))
	type descriptor struct{ Digest string }
	var index, platforms struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
	}
	blob := func(d descriptor) []byte {
		t.Helper()
		data, isThere := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); !isThere || sum != d.Digest {
			t.Fatalf("the blob %s is there: %t, with the digest %s", d.Digest, isThere, sum)
		}
		return data
	}
	for _, step := range []struct {
		data func() []byte
		into any
	}{
		{func() []byte { return files["index.json"] }, &index},
		{func() []byte { return blob(index.Manifests[0]) }, &platforms},
		{func() []byte { return blob(platforms.Manifests[0]) }, &manifest},
		{func() []byte { return blob(manifest.Config) }, &config},
	} {
		if err := json.Unmarshal(step.data(), step.into); err != nil {
			t.Fatal(err)
		}
	}
	if got := config.Config; got.User != "65532:65532" || !slices.Equal(got.Entrypoint, []string{"/berth"}) {
		t.Errorf("the image runs %q as %q", got.Entrypoint, got.User)
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	layer := unpack(t, z)
	if !bytes.Equal(layer["berth"], program) {
		t.Error("the image has another program than the archive")
	}
	if n := bytes.Count(layer["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("the image trusts %d roots, want those of Mozilla: over 100", n)
	}
}

// runImage loads the image into podman's storage in a folder of its own, and runs it.
func runImage(t *testing.T, r *release) {
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("no podman: apt-get install podman runc")
	}
	// Podman keeps its sockets in the storage's folder, and a socket's path is short.
	storage, err := os.MkdirTemp("", "podman")
	if err != nil {
		t.Fatal(err)
	}
	podman := func(ctx context.Context, args ...string) string {
		cmd := exec.CommandContext(ctx, "podman", append([]string{
			"--root", storage, "--runroot", storage + "/run", "--storage-driver", "vfs",
		}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() {
		podman(context.Background(), "rmi", "--all", "--force")
		_ = os.RemoveAll(storage)
	})
	image := filepath.Join(r.out, r.name("_image.tar"))
	podman(t.Context(), "load", "--quiet", "--input", image)
	// A machine of CI may forbid to raise the limits that podman sets by itself.
	out := podman(t.Context(), "run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
		"docker.io/library/berth:"+r.tag(), "--version")
	if !strings.Contains(out, r.version) {
		t.Errorf("berth --version in a container: %q, want %s", out, r.version)
	}
}

func TestPlatforms(t *testing.T) {
	for list, want := range map[string]string{
		"plan9/amd64":           `-platforms "plan9/amd64": want some of linux/amd64,`,
		"linux/amd64,":          `-platforms "": want some of linux/amd64,`,
		"linux":                 `-platforms "linux": want some of linux/amd64,`,
		"linux/amd64,linux/arm": `-platforms "linux/arm": want some of linux/amd64,`,
	} {
		if err := new(release).choosePlatforms(list, nil); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("-platforms %q: %v, want %s", list, err, want)
		}
	}
	if err := new(release).choosePlatforms(host, []string{"extra"}); !errors.Is(err, errUsage) {
		t.Errorf("an argument that is no flag: %v", err)
	}
	r := new(release)
	if err := r.choosePlatforms(platforms, nil); err != nil || len(r.platforms) != 6 {
		t.Errorf("%v, %v", r.platforms, err)
	}
}

// A folder that is no checkout has no version, and nothing is built from it.
func TestNoCheckout(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	r := &release{source: t.TempDir(), out: out, progress: t.Output()}
	if err := r.build(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a Git checkout") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the folder was made")
	}
}
