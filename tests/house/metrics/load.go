package metrics

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Areas are the top-level folders whose code is measured.
var Areas = []string{"shared", "cmd", "functions"}

// Code is a checkout that has been read: every file as it is on disk, and the packages with their types.
type Code struct {
	module   string
	dir      string
	files    []file // of Areas, tests included
	others   []file // tests/, looked at for the length of files alone
	packages []*packages.Package
}

// file is one .go file, whatever its build constraints.
type file struct {
	path   string // slash-separated, from the root of the checkout
	source []byte
	set    *token.FileSet
	ast    *ast.File
}

func (f file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f file) folder() string { return path.Dir(f.path) }

func (f file) area() string {
	area, _, _ := strings.Cut(f.path, "/")
	return area
}

// Load reads the checkout at dir, the root of a module. Code that does not compile is an error: its types are not known.
// Progress is told of each step that begins.
func Load(dir string, progress func(step string)) (*Code, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	progress("reading files")
	c := &Code{dir: dir}
	var patterns []string
	for _, area := range Areas {
		found, err := readFolder(dir, area)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			patterns = append(patterns, "./"+area+"/...")
		}
		c.files = append(c.files, found...)
	}
	if len(patterns) == 0 {
		return nil, fmt.Errorf("measuring %s: no Go files in %s", dir, strings.Join(Areas, ", "))
	}
	if c.others, err = readFolder(dir, "tests"); err != nil {
		return nil, err
	}
	progress("loading packages and their types")
	if err := c.loadPackages(patterns); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Code) loadPackages(patterns []string) error {
	loaded, err := packages.Load(&packages.Config{
		Dir: c.dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes |
			packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule,
	}, patterns...)
	if err != nil {
		return fmt.Errorf("loading packages of %s: %w", c.dir, err)
	}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return fmt.Errorf("loading package %s: %w", p.PkgPath, p.Errors[0])
		}
		if p.Module != nil {
			c.module = p.Module.Path
		}
	}
	c.packages = loaded
	return nil
}

// readFolder parses the .go files of one top-level folder. Folders with testdata, hidden ones and other modules are
// left out. A folder that does not exist has no files.
func readFolder(root, area string) ([]file, error) {
	var out []file
	err := filepath.WalkDir(filepath.Join(root, area), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) && d == nil {
				return nil
			}
			return err
		}
		if d.IsDir() {
			if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || exists(filepath.Join(name, "go.mod")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := readFile(root, name)
		out = append(out, f)
		return err
	})
	return out, err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func readFile(root, name string) (file, error) {
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return file{}, err
	}
	source, err := os.ReadFile(name)
	if err != nil {
		return file{}, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, rel, source, parser.ParseComments)
	return file{path: filepath.ToSlash(rel), source: source, set: set, ast: tree}, err
}

// measured are the files that the figures count: those of the areas, without tests.
func (c *Code) measured() []file {
	var out []file
	for _, f := range c.files {
		if !f.test() {
			out = append(out, f)
		}
	}
	return out
}

// local shortens a package path or a qualified name by the module's own path.
func (c *Code) local(name string) string { return strings.TrimPrefix(name, c.module+"/") }

// position names a position in a loaded package, PATH:LINE from the root of the checkout.
func (c *Code) position(p *packages.Package, pos token.Pos) string {
	at := p.Fset.Position(pos)
	rel, err := filepath.Rel(c.dir, at.Filename)
	if err != nil {
		rel = at.Filename
	}
	return fmt.Sprintf("%s:%d", filepath.ToSlash(rel), at.Line)
}
