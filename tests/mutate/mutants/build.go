package mutants

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed switches/switches.go
var switches string

// switchesFile is the name of the file that each package with changes gets.
const switchesFile = "zz_mutants.go"

// A Suite is the compiled tests of a tree, with the changes in them.
type Suite struct {
	dir      string // of temporary files
	programs []*program
	mutants  []*Mutant
	tests    []*test // known once measured
	// Leeway is how long tests may take besides ten times what they usually take.
	Leeway time.Duration
}

// program is the compiled tests of one package.
type program struct {
	file, folder string
	hasRapid     bool
}

// Build compiles the tests of all packages of the tree with the drawn changes. Temporary files go
// into dir.
func Build(ctx context.Context, t *Tree, drawn []*Mutant, dir string) (*Suite, error) {
	overlay, err := writeCopies(t, drawn, dir)
	if err != nil {
		return nil, err
	}
	s := &Suite{dir: dir, mutants: drawn, Leeway: 20 * time.Second}
	list, err := runGo(ctx, t.root, append([]string{"list",
		"-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,TestImports,XTestImports"},
		t.paths()...)...)
	if err != nil {
		return nil, err
	}
	for in := json.NewDecoder(bytes.NewReader(list)); in.More(); {
		var p struct {
			ImportPath, Dir                                      string
			TestGoFiles, XTestGoFiles, TestImports, XTestImports []string
		}
		if err := in.Decode(&p); err != nil {
			return nil, fmt.Errorf("reading the answer of go list: %w", err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.test", len(s.programs)))
		if _, err := runGo(ctx, t.root, "test", "-c", "-vet=off", "-overlay", overlay, "-o", file,
			p.ImportPath); err != nil {
			return nil, err
		}
		imports := strings.Join(append(p.TestImports, p.XTestImports...), " ")
		s.programs = append(s.programs, &program{file, p.Dir, strings.Contains(imports, "pgregory.net/rapid")})
	}
	if len(s.programs) == 0 {
		return nil, fmt.Errorf("%s has no tests", strings.Join(t.paths(), " "))
	}
	return s, nil
}

func (t *Tree) paths() (paths []string) {
	for _, p := range t.packages {
		paths = append(paths, p.PkgPath)
	}
	return paths
}

// writeCopies gives the changes their numbers, writes the copies of their files and the switches,
// and returns the name of the overlay file that says where they are.
func writeCopies(t *Tree, drawn []*Mutant, dir string) (string, error) {
	byFile := map[string][]*Mutant{}
	for n, m := range drawn {
		m.id = n + 1
		byFile[m.path] = append(byFile[m.path], m)
	}
	replace := map[string]string{}
	write := func(path string, content []byte) error {
		copied := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[path] = copied
		return os.WriteFile(copied, content, 0o644)
	}
	for _, p := range t.packages {
		for _, path := range p.GoFiles {
			if len(byFile[path]) == 0 {
				continue
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			if err := write(path, weaveFile(source, byFile[path])); err != nil {
				return "", err
			}
			beside := filepath.Join(filepath.Dir(path), switchesFile)
			if replace[beside] != "" {
				continue
			}
			_, code, _ := strings.Cut(switches, "\npackage switches\n")
			if err := write(beside, []byte("package "+p.Name+"\n"+code)); err != nil {
				return "", err
			}
		}
	}
	name := filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(name, content, 0o644)
}

// runGo runs the go command and returns what it prints.
func runGo(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var out, errors bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errors
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args[:min(2, len(args))], " "), err, errors.Bytes())
	}
	return out.Bytes(), nil
}
