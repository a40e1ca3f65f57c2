//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// buildFunctions returns an action that builds every function as Lambda runs it, for an
// architecture.
func (r *runner) buildFunctions(arch string) action {
	return func(ctx context.Context, log io.Writer) result {
		names, err := r.functionNames()
		if err != nil {
			return failed(log, err)
		}
		dir := filepath.Join(r.cache, "build", arch) + string(filepath.Separator)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return failed(log, err)
		}
		flags, err := r.lambdaFlags()
		if err != nil {
			return failed(log, err)
		}
		err = r.exec(ctx, log, []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0", "GOFLAGS=" + flags},
			"go", "build", "-o", dir, "./functions/...")
		if err != nil {
			return failed(log, err)
		}
		return checkSizes(log, names, arch, func(name string) string { return filepath.Join(dir, name) })
	}
}

// functionNames lists the functions, by their folders.
func (r *runner) functionNames() (names []string, err error) {
	mains, err := filepath.Glob(filepath.Join(r.root, "functions", "*", "main.go"))
	for _, main := range mains {
		names = append(names, filepath.Base(filepath.Dir(main)))
	}
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no function in functions/")
	}
	return names, err
}

// The limits of a function's binary for arm64, which the template chooses. A large one starts
// slowly, so the limit is lower for the functions that answer users or that every task waits for.
const (
	maxSize      = 20 << 20
	maxQuickSize = 12 << 20
)

// percentForX86 is by how many percent the same program may be larger for amd64: the compiler makes
// its code about 7 % larger (api: 12.58 MB beside 11.73).
const percentForX86 = 8

var quickFunctions = []string{"api", "dispatch", "placement", "task-state-change"}

// checkSizes compares the functions' binaries with their limits.
func checkSizes(log io.Writer, names []string, arch string, binary func(name string) string) result {
	var res result
	for _, name := range names {
		info, err := os.Stat(binary(name))
		if err != nil {
			return failed(log, err)
		}
		limit := int64(maxSize)
		if slices.Contains(quickFunctions, name) {
			limit = maxQuickSize
		}
		if arch == "amd64" {
			limit = limit * (100 + percentForX86) / 100
		}
		res.note += fmt.Sprintf("%s %.1f MB  ", name, float64(info.Size())/(1<<20))
		if info.Size() > limit {
			fmt.Fprintf(log, "%s has %d bytes, the limit is %d\n", name, info.Size(), limit)
			res.failed = append(res.failed, "size of "+name)
		}
	}
	res.note = strings.TrimSpace(res.note)
	if len(res.failed) == 0 {
		res.passed = []string{""}
	}
	return res
}

var lambdaFlagsLine = regexp.MustCompile(`(?m)^LAMBDA_GOFLAGS := (.+)$`)

// lambdaFlags returns the Makefile's flags for building functions.
func (r *runner) lambdaFlags() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "Makefile"))
	if err != nil {
		return "", err
	}
	m := lambdaFlagsLine.FindSubmatch(text)
	if m == nil {
		return "", errors.New("the Makefile has no LAMBDA_GOFLAGS")
	}
	return string(m[1]), nil
}

var resourceLine = regexp.MustCompile(`^  (\w+):\s*(#.*)?$`)

// functionID returns the template's logical id of the function whose code is in dir.
func functionID(template, dir string) (string, error) {
	id := ""
	for line := range strings.Lines(template) {
		line = strings.TrimRight(line, "\r\n")
		if m := resourceLine.FindStringSubmatch(line); m != nil {
			id = m[1]
		}
		uri, ok := strings.CutPrefix(strings.TrimSpace(line), "CodeUri:")
		if ok && strings.Trim(strings.TrimSpace(uri), "./") == dir {
			return id, nil
		}
	}
	return "", fmt.Errorf("template.yaml has no function with CodeUri %s", dir)
}
