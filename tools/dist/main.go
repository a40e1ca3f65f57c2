// Command dist builds a release of berth from a checkout: an archive for each platform, a list of
// the modules in it (SBOM, CycloneDX), a container image as a file, and checksums of them all.
//
// The same commit gives the same bytes, on every machine and in every folder: builds are trimmed of
// paths, archives have the commit's time, sorted names and no owner. The version is the one that
// the Go command derives from Git: a tag, or the last tag with the commit's time and revision.
//
// Run it as `make dist`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// platforms are those that a release is built for, as GOOS/GOARCH.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := release{progress: os.Stderr}
	var list string
	flag.StringVar(&r.source, "source", ".", "the `folder` of the checkout")
	flag.StringVar(&r.out, "out", "dist", "the `folder` for the release; files of an earlier one in it are replaced")
	flag.StringVar(&list, "platforms", platforms, "what to build for, as `GOOS/GOARCH,...`")
	flag.Parse()
	err := r.choosePlatforms(list, flag.Args())
	if err == nil {
		err = r.build(ctx)
	}
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(2)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "dist: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// errUsage marks a command line that cannot be right.
var errUsage = errors.New("wrong flags")

// A platform is an operating system and a processor, in Go's words.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// A release is what dist builds.
type release struct {
	source    string
	out       string
	platforms []platform
	progress  io.Writer

	made    time.Time // of the commit
	version string    // as the binaries say it
	files   []string  // in out, by name
}

// A binary is berth, built for one platform.
type binary struct {
	platform platform
	path     string
}

// choosePlatforms reads the list of platforms, and refuses what else is on the command line.
func (r *release) choosePlatforms(list string, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("%w: %q is not a flag", errUsage, rest[0])
	}
	known := strings.Split(platforms, ",")
	for _, name := range strings.Split(list, ",") {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%w: -platforms %q: want some of %s", errUsage, name, platforms)
		}
		system, arch, _ := strings.Cut(name, "/")
		r.platforms = append(r.platforms, platform{system, arch})
	}
	return nil
}

// build makes the whole release.
func (r *release) build(ctx context.Context) error {
	var err error
	if r.made, err = r.commitTime(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "berth-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binaries, err := r.compileAll(ctx, work)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		if err := r.writeArchive(b); err != nil {
			return fmt.Errorf("the archive for %s: %w", b.platform, err)
		}
	}
	if err := r.writeSBOM(binaries); err != nil {
		return fmt.Errorf("the list of modules: %w", err)
	}
	if err := r.writeImage(binaries); err != nil {
		return fmt.Errorf("the image: %w", err)
	}
	return r.writeChecksums()
}

// compileAll builds berth for each platform into the folder, and learns the version from the first
// one.
func (r *release) compileAll(ctx context.Context, work string) (built []binary, err error) {
	for i, p := range r.platforms {
		fmt.Fprintf(r.progress, "building %s (%d of %d)\n", p, i+1, len(r.platforms))
		b := binary{p, filepath.Join(work, p.os+"-"+p.arch, "berth")}
		if p.os == "windows" {
			b.path += ".exe"
		}
		// -buildvcs=true fails where the default would leave the version out.
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s", "-o", b.path, "./cmd/berth")
		cmd.Dir = r.source
		cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "CGO_ENABLED=0", "GOFLAGS=")
		if said, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building for %s: %w\n%s", p, err, said)
		}
		built = append(built, b)
	}
	info, err := readBuildInfo(built[0].path)
	if err != nil {
		return nil, err
	}
	if r.version = info.Main.Version; strings.HasSuffix(r.version, "+dirty") {
		fmt.Fprintln(r.progress, "the checkout has changes that are not committed: this is no release, and not reproducible")
	}
	return built, nil
}

// commitTime returns when the checked out commit was made.
func (r *release) commitTime(ctx context.Context) (time.Time, error) {
	cmd := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct")
	cmd.Dir = r.source
	out, err := cmd.Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is not a Git checkout with a commit, which the version comes from: %w", r.source, err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of the commit: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// name returns the name of a file of the release: berth_VERSION and the rest.
func (r *release) name(rest string) string {
	return "berth_" + strings.TrimPrefix(r.tag(), "v") + rest
}

// create creates a file of the release, in which write writes. The file is not there if that fails.
func (r *release) create(name string, write func(io.Writer) error) (err error) {
	path := filepath.Join(r.out, name)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(path)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	r.files = append(r.files, name)
	fmt.Fprintln(r.progress, path)
	return nil
}
