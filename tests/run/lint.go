//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"go/format"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// gofmt finds Go files that are not formatted. It passes over folders whose names start with a dot.
func (r *runner) gofmt(_ context.Context, log io.Writer) result {
	res := passed()
	err := filepath.WalkDir(r.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != r.root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if formatted, err := format.Source(src); err != nil || !bytes.Equal(src, formatted) {
			rel, _ := filepath.Rel(r.root, name)
			fmt.Fprintf(log, "%s: run gofmt -w\n", rel)
			res = result{failed: []string{""}}
		}
		return nil
	})
	if err != nil {
		return failed(log, err)
	}
	return res
}

// staticcheck builds and runs the version of staticcheck that tools/go.mod names.
func (r *runner) staticcheck(ctx context.Context, log io.Writer) result {
	bin := filepath.Join(r.cache, "bin", "staticcheck")
	err := r.exec(ctx, log, nil, "go", "build", "-C", "tools", "-o", bin, "honnef.co/go/tools/cmd/staticcheck")
	if err != nil {
		return failed(log, err)
	}
	return r.command(bin, "./...")(ctx, log)
}

// samValidate checks the template. It needs no account.
func (r *runner) samValidate(sam *tool) action {
	return func(ctx context.Context, log io.Writer) result {
		if !sam.ready() {
			return skipped("no sam CLI")
		}
		return r.command(sam.bin("sam"), "validate", "--lint", "--template", "template.yaml")(ctx, log)
	}
}

// checkTemplates returns an action that runs a tool on template.yaml and the templates that it
// includes. The flag, unless empty, comes before each file.
func (r *runner) checkTemplates(t *tool, args []string, flag string) action {
	return func(ctx context.Context, log io.Writer) result {
		if !t.ready() {
			return t.step(ctx, log)
		}
		included, err := filepath.Glob(filepath.Join(r.root, "infra", "*.yaml"))
		if err != nil {
			return failed(log, err)
		}
		for _, file := range append([]string{filepath.Join(r.root, "template.yaml")}, included...) {
			if flag != "" {
				args = append(args, flag)
			}
			args = append(args, file)
		}
		res := r.command(t.bin(t.name), args...)(ctx, log)
		res.note = t.note
		return res
	}
}

// checkScripts returns an action that has make read the targets that nothing here can run, and runs
// shellcheck on the shell scripts.
func (r *runner) checkScripts(t *tool) action {
	return func(ctx context.Context, log io.Writer) result {
		for _, targets := range [][]string{
			{"deploy", "destroy"},
			{"-C", "localstack", "up", "fleet", "deploy", "smoke", "destroy", "down"},
		} {
			if err := r.exec(ctx, io.Discard, nil, "make", append([]string{"-n"}, targets...)...); err != nil {
				return failed(log, err)
			}
		}
		if !t.ready() {
			return t.step(ctx, log)
		}
		res := r.command(t.bin("shellcheck"), ".ci/run", "localstack/smoke.sh")(ctx, log)
		res.note = t.note
		return res
	}
}
