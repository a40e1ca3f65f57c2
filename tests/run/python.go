//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// tool is a program of PyPI in a virtual environment of its own: the aws and sam CLIs want different versions of the
// same libraries.
type tool struct {
	name string
	dir  string
	done chan struct{}
	why  string // why it was not fetched: no Python
	err  error
	log  bytes.Buffer
	note string
}

func (t *tool) bin(name string) string { return filepath.Join(t.dir, "bin", name) }

// ready waits for the tool and reports whether it is there.
func (t *tool) ready() bool {
	<-t.done
	return t.why == "" && t.err == nil
}

func (t *tool) step(_ context.Context, log io.Writer) result {
	if t.ready() {
		return result{passed: 1, note: t.note}
	}
	if t.why != "" {
		return skipped(t.why)
	}
	io.Copy(log, &t.log)
	return failed(log, t.err)
}

// pythonTools are fetched while Go compiles.
type pythonTools struct {
	aws, ministack, moto, sam, cfnLint, checkov, shellcheck *tool
	all                                                     sync.WaitGroup
}

func (p *pythonTools) wait() { p.all.Wait() }

func (r *runner) fetchPythonTools(ctx context.Context, lint bool) *pythonTools {
	p := &pythonTools{
		aws: r.newTool("aws"), ministack: r.newTool("ministack"), moto: r.newTool("moto"), sam: r.newTool("sam"), cfnLint: r.newTool("cfn-lint"),
		checkov: r.newTool("checkov"), shellcheck: r.newTool("shellcheck"),
	}
	p.all.Go(func() {
		python, why := r.findPython(ctx)
		for _, t := range []*tool{p.ministack, p.aws, p.moto, p.sam, p.cfnLint, p.checkov, p.shellcheck} { // in the order in which they are needed
			switch {
			case why != "":
				t.why = why
			case lint && (t == p.aws || t == p.ministack || t == p.moto):
				t.why = "not needed"
			default:
				t.err = r.fetch(ctx, t, python)
			}
			close(t.done)
		}
	})
	return p
}

// fetchOnly fetches one tool and gives the exit code.
func (r *runner) fetchOnly(ctx context.Context, name string) int {
	t := r.newTool(name)
	close(t.done)
	python, why := r.findPython(ctx)
	if t.why = why; why == "" {
		t.err = r.fetch(ctx, t, python)
	}
	if res := t.step(ctx, r.out); res.passed == 0 {
		fmt.Fprintf(r.out, "fetching %s: %s\n", name, t.why)
		return 1
	}
	return 0
}

func (r *runner) newTool(name string) *tool {
	return &tool{name: name, dir: filepath.Join(r.cache, "venv", name), done: make(chan struct{})}
}

// usable ends with success for a Python that sam runs on and that can make virtual environments.
const usable = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"

// findPython gives a Python, or says why there is none. As root on Debian, as in most containers, it installs one.
func (r *runner) findPython(ctx context.Context) (python, why string) {
	for range 2 {
		for _, name := range []string{"python3", "python3.13", "python3.12", "python3.11", "python3.10", "/usr/bin/python3"} {
			if _, err := r.output(ctx, name, "-c", usable); err == nil {
				return name, ""
			}
		}
		if !r.installPython(ctx) {
			break
		}
	}
	return "", "no Python 3.10 or newer with venv"
}

func (r *runner) installPython(ctx context.Context) bool {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return false
	}
	var log bytes.Buffer
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	_ = r.exec(ctx, &log, env, apt, "update", "-q")
	return r.exec(ctx, &log, env, apt, "install", "-q", "-y", "--no-install-recommends", "python3", "python3-venv") == nil
}

// fetch installs what the tool's list in tools/ names, unless that was done before.
func (r *runner) fetch(ctx context.Context, t *tool, python string) error {
	list := filepath.Join(r.root, "tools", t.name+".txt")
	want, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	mark := filepath.Join(t.dir, "installed")
	t.note = strings.Join(strings.Fields(string(want)), " ")
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, want) {
		if _, err := r.output(ctx, t.bin("python"), "-c", ""); err == nil {
			return nil
		}
	}
	if err := os.RemoveAll(t.dir); err != nil {
		return err
	}
	if err := r.exec(ctx, &t.log, nil, python, "-m", "venv", t.dir); err != nil {
		return fmt.Errorf("making a virtual environment: %w", err)
	}
	err = r.exec(ctx, &t.log, nil, t.bin("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", list)
	if err != nil {
		return fmt.Errorf("fetching %s: %w", t.note, err)
	}
	return os.WriteFile(mark, want, 0o644)
}
