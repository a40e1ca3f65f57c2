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

// A tool is a program of PyPI, in a virtual environment of its own: the aws and sam CLIs need
// different versions of the same libraries.
type tool struct {
	name string
	dir  string
	done chan struct{} // closed once the tool is installed or cannot be
	why  string        // why it was not fetched, such as no Python
	err  error
	log  bytes.Buffer
	note string
}

func (r *runner) newTool(name string) *tool {
	return &tool{name: name, dir: filepath.Join(r.cache, "venv", name), done: make(chan struct{})}
}

func (t *tool) bin(name string) string { return filepath.Join(t.dir, "bin", name) }

// ready waits for the tool and reports whether it is installed.
func (t *tool) ready() bool {
	<-t.done
	return t.why == "" && t.err == nil
}

// step is the action that waits for the tool.
func (t *tool) step(_ context.Context, log io.Writer) result {
	if t.ready() {
		res := passed()
		res.note = t.note
		return res
	}
	if t.why != "" {
		return skipped(t.why)
	}
	io.Copy(log, &t.log)
	return failed(log, t.err)
}

// pythonTools are fetched while Go compiles.
type pythonTools struct {
	aws, clients, ministack, moto, sam, cfnLint, checkov, shellcheck *tool

	fetching sync.WaitGroup
}

func (p *pythonTools) wait() { p.fetching.Wait() }

// The tools that each command needs, in the order in which it needs them.
func testTools(p *pythonTools) []*tool {
	return []*tool{p.ministack, p.aws, p.moto, p.sam, p.cfnLint, p.checkov, p.shellcheck}
}

func checkTools(p *pythonTools) []*tool { return []*tool{p.sam, p.ministack, p.aws, p.moto, p.clients} }

func lintTools(p *pythonTools) []*tool {
	return []*tool{p.sam, p.cfnLint, p.checkov, p.shellcheck}
}

// fetchPythonTools starts to fetch the tools that a command needs.
func (r *runner) fetchPythonTools(ctx context.Context, needed func(*pythonTools) []*tool) *pythonTools {
	p := &pythonTools{
		aws: r.newTool("aws"), ministack: r.newTool("ministack"), moto: r.newTool("moto"), sam: r.newTool("sam"),
		clients: r.newTool("clients"),
		cfnLint: r.newTool("cfn-lint"), checkov: r.newTool("checkov"), shellcheck: r.newTool("shellcheck"),
	}
	p.fetching.Go(func() {
		python, why := r.findPython(ctx)
		for _, t := range needed(p) {
			if t.why = why; why == "" {
				t.err = r.fetch(ctx, t, python)
			}
			close(t.done)
		}
	})
	return p
}

// fetchOnly fetches one tool and returns the exit code.
func (r *runner) fetchOnly(ctx context.Context, name string) int {
	t := r.newTool(name)
	close(t.done)
	python, why := r.findPython(ctx)
	if t.why = why; why == "" {
		t.err = r.fetch(ctx, t, python)
	}
	res := t.step(ctx, r.out)
	if why != "" {
		fmt.Fprintf(r.out, "cannot fetch %s: %s\n", name, why)
	}
	if len(res.passed) == 0 {
		return 1
	}
	return 0
}

// probePython exits with 0 on a Python that sam runs on and that can create virtual environments.
const probePython = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"

var pythonNames = []string{"python3", "python3.13", "python3.12", "python3.11", "python3.10", "/usr/bin/python3"}

// findPython returns a Python, or says why there is none. As root on Debian, as in most containers,
// it installs one.
func (r *runner) findPython(ctx context.Context) (python, why string) {
	for range 2 {
		for _, name := range pythonNames {
			if _, err := r.output(ctx, name, "-c", probePython); err == nil {
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
	err = r.exec(ctx, &log, env, apt, "install", "-q", "-y", "--no-install-recommends", "python3", "python3-venv")
	return err == nil
}

// fetch installs the packages that the tool's list in tools/ names, unless they are installed
// already.
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
		return fmt.Errorf("creating a virtual environment: %w", err)
	}
	pip := []string{"-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", list}
	err = r.exec(ctx, &t.log, nil, t.bin("python"), pip...)
	if err != nil {
		return fmt.Errorf("fetching %s: %w", t.note, err)
	}
	return os.WriteFile(mark, want, 0o644)
}
