package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// The most that one piece may have. What is longer has not been thought through to the end.
const (
	maxFunction   = 80  // lines, tests apart
	maxFile       = 500 // lines
	maxTestFile   = 800
	maxMain       = 40 // lines of a function's main.go
	maxParameters = 5
)

// clockFunctions of package time read the clock or wait for it.
var clockFunctions = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// timeless are the folders whose code, and that of the folders below them, takes the time as an
// input.
var timeless = []string{
	"shared/cluster", "shared/state", "shared/snapshot", "shared/placement", "shared/service", "shared/scaling",
	"shared/nodegroup",
	"shared/decide", "shared/observe", "shared/awsevent", "shared/handler", "shared/quota",
}

func isTimeless(folder string) bool {
	return slices.ContainsFunc(timeless, func(t string) bool { return folder == t || strings.HasPrefix(folder, t+"/") })
}

// source is one Go file, its path relative to the project's root.
type source struct {
	path  string
	lines int
	set   *token.FileSet
	file  *ast.File
}

func parse(name string, content []byte) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments)
	if err != nil {
		return source{}, fmt.Errorf("parsing %s: %w", name, err)
	}
	return source{path: name, lines: strings.Count(string(content), "\n"), set: set, file: file}, nil
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) line(p token.Pos) int { return s.set.Position(p).Line }

// complaints are all breaches of the rules on single files.
func (s source) complaints() []string {
	out := s.tooLong()
	if stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test"); slices.Contains(vagueNames,
		stem) {
		out = append(out, fmt.Sprintf("%s: the name says nothing about what is in it", s.path))
	}
	switch {
	case s.test():
		out = append(out, s.calls("time", []string{"Sleep"}, "a test waits for an event or a virtual clock")...)
	case isTimeless(path.Dir(s.path)):
		out = append(out, s.calls("time", clockFunctions, "time is an input here")...)
	}
	if !s.test() && strings.HasPrefix(s.path, "shared/") {
		out = append(out, s.undocumented()...)
	}
	return slices.Concat(out, s.shadowed(), s.redundantAliases())
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// redundantAliases finds imports that are given the name that they have anyway. A name like v4 is
// no surprise only if it is said.
func (s source) redundantAliases() []string {
	var out []string
	for _, i := range s.file.Imports {
		if i.Name != nil && i.Name.Name == path.Base(strings.Trim(i.Path.Value, `"`)) &&
			!majorVersion.MatchString(i.Name.Name) {
			out = append(out, fmt.Sprintf("%s:%d: the import %s has that name anyway", s.path, s.line(i.Pos()),
				i.Name.Name))
		}
	}
	return out
}

func (s source) tooLong() []string {
	var out []string
	most := maxFile
	switch {
	case s.test():
		most = maxTestFile
	case strings.HasPrefix(s.path, "functions/") && path.Base(s.path) == "main.go":
		most = maxMain
	}
	if s.lines > most {
		out = append(out, fmt.Sprintf("%s: %d lines, at most %d", s.path, s.lines, most))
	}
	if s.test() {
		return out
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > maxFunction {
			out = append(out, fmt.Sprintf("%s:%d: %s has %d lines, at most %d", s.path, s.line(f.Pos()), f.Name.Name, n,
				maxFunction))
		}
		if n := f.Type.Params.NumFields(); n > maxParameters {
			out = append(out, fmt.Sprintf("%s:%d: %s has %d parameters, at most %d", s.path, s.line(f.Pos()),
				f.Name.Name, n, maxParameters))
		}
	}
	return out
}

// calls finds uses of the named functions of a standard package.
func (s source) calls(importPath string, names []string, why string) []string {
	local := ""
	for _, i := range s.file.Imports {
		if i.Path.Value == `"`+importPath+`"` {
			local = path.Base(importPath)
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, sel.Sel.Name) {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && local != "" && x.Name == local {
			out = append(out, fmt.Sprintf("%s:%d: %s.%s: %s", s.path, s.line(n.Pos()), importPath, sel.Sel.Name, why))
		}
		return true
	})
	return out
}

// shadowed finds declarations that hide a predeclared name, such as a variable "min" or "new".
// Fields and methods hide nothing.
func (s source) shadowed() []string {
	var out []string
	report := func(declared ast.Expr) {
		if name, ok := declared.(*ast.Ident); ok && types.Universe.Lookup(name.Name) != nil {
			out = append(out, fmt.Sprintf("%s:%d: %s hides the predeclared name", s.path, s.line(name.Pos()),
				name.Name))
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil {
				report(n.Name)
			} else {
				reportFields(n.Recv, report)
			}
		case *ast.FuncType:
			reportFields(n.TypeParams, report)
			reportFields(n.Params, report)
			reportFields(n.Results, report)
		case *ast.TypeSpec:
			report(n.Name)
			reportFields(n.TypeParams, report)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				report(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, x := range n.Lhs {
					report(x)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				report(n.Key)
				report(n.Value)
			}
		}
		return true
	})
	return out
}

func reportFields(list *ast.FieldList, report func(ast.Expr)) {
	if list == nil {
		return
	}
	for _, f := range list.List {
		for _, name := range f.Names {
			report(name)
		}
	}
}

// undocumented finds exported functions, methods and types without a doc comment. One comment may
// speak for a run of short declarations: then it names them.
func (s source) undocumented() []string {
	var out []string
	report := func(name *ast.Ident, doc *ast.CommentGroup) {
		if name.IsExported() && doc == nil && !s.mentioned(name.Name) {
			out = append(out, fmt.Sprintf("%s:%d: %s has no doc comment", s.path, s.line(name.Pos()), name.Name))
		}
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				report(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					report(t.Name, either(t.Doc, d.Doc))
				}
			}
		}
	}
	return out
}

func either(a, b *ast.CommentGroup) *ast.CommentGroup {
	if a != nil {
		return a
	}
	return b
}

func receiver(f *ast.FuncDecl) string {
	x := f.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// mentioned reports whether a comment that belongs to no declaration names it.
func (s source) mentioned(name string) bool {
	for _, c := range s.file.Comments {
		if slices.Contains(strings.FieldsFunc(c.Text(),
			func(r rune) bool { return strings.ContainsRune(" ,.;:()[]\n", r) }), name) {
			return true
		}
	}
	return false
}

// sources are all Go files of the project, folders that start with a dot or hold test data apart.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), content)
		out = append(out, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSources(t *testing.T) {
	all := sources(t)
	if !slices.ContainsFunc(all, func(s source) bool { return s.path == "shared/cluster/task.go" }) {
		t.Error("shared/cluster/task.go was not looked at")
	}
	for _, s := range all {
		for _, c := range s.complaints() {
			t.Error(c)
		}
	}
	for _, c := range withoutPackageComment(all) {
		t.Error(c)
	}
}

// withoutPackageComment finds folders none of whose files says what the package is.
func withoutPackageComment(all []source) (complaints []string) {
	documented := map[string]bool{}
	for _, s := range all {
		if folder := path.Dir(s.path); !s.test() {
			documented[folder] = documented[folder] || s.file.Doc != nil
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(documented)) {
		if !documented[folder] {
			complaints = append(complaints, folder+": no file has a package comment")
		}
	}
	return complaints
}

// The rules find what breaks them, one planted breach each.
func TestSourceRulesBite(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("\tx()\n", n) }
	for name, c := range map[string]struct{ path, code, want string }{
		"LongFunction": {"cmd/berth/up.go", "func up() {\n" + lines(79) + "}\n",
			"cmd/berth/up.go:2: up has 81 lines, at most 80"},
		"LongFile": {"cmd/berth/up.go", strings.Repeat("// x\n", 500),
			"cmd/berth/up.go: 501 lines, at most 500"},
		"LongTest": {"cmd/berth/up_test.go", strings.Repeat("// x\n", 800),
			"cmd/berth/up_test.go: 801 lines, at most 800"},
		"LongMain": {"functions/api/main.go", strings.Repeat("// x\n", 40),
			"functions/api/main.go: 41 lines, at most 40"},
		"ManyParameters": {"cmd/berth/up.go", "func up(a, b, c int, d, e, f string) {}\n",
			"cmd/berth/up.go:2: up has 6 parameters, at most 5"},
		"VagueFile": {"cmd/berth/helpers_test.go", "",
			"cmd/berth/helpers_test.go: the name says nothing about what is in it"},
		"ClockInCore": {"shared/placement/score.go", "import \"time\"\nvar t = time.Now()\n",
			"shared/placement/score.go:3: time.Now: time is an input here"},
		"ClockAsValue": {"shared/service/step.go", "import clock \"time\"\nvar now = clock.Now\n",
			"shared/service/step.go:3: time.Now: time is an input here"},
		"SleepInTest": {"shared/sim/sim_test.go", "import \"time\"\nfunc f() { time.Sleep(1) }\n",
			"shared/sim/sim_test.go:3: time.Sleep: a test waits for an event or a virtual clock"},
		"NoDocOnFunction": {"shared/wire/wire.go", "func Decode() {}\n",
			"shared/wire/wire.go:2: Decode has no doc comment"},
		"NoDocOnMethod": {"shared/wire/wire.go", "// T is.\ntype T[K any] struct{}\n\nfunc (t *T[K]) Do() {}\n",
			"shared/wire/wire.go:5: Do has no doc comment"},
		"NoDocOnType": {"shared/wire/wire.go", "type Decoder struct{}\n",
			"shared/wire/wire.go:2: Decoder has no doc comment"},
		"Shadowed": {"cmd/berth/up.go",
			"func max(a int) (len int) {\n\tfor cap := range new {\n\t\tany := a\n\t}\n}\n",
			"cmd/berth/up.go:2: max hides the predeclared name\ncmd/berth/up.go:2: len hides the predeclared name\ncmd/berth/up.go:3: cap hides the predeclared name\ncmd/berth/up.go:4: any hides the predeclared name"},
		"RedundantAlias": {"cmd/berth/up.go",
			"import (\n\ttime \"time\"\n\tclock \"time\"\n)\n\nvar _, _ = time.Now, clock.Now\n",
			"cmd/berth/up.go:3: the import time has that name anyway"},
		"FieldsHideNothing": {"cmd/berth/up.go",
			"type set struct{ len int }\n\nfunc (s set) max() int { return s.len }\n", ""},
		"NothingElse": {"shared/wire/wire.go",
			"// A, B are.\n\nfunc A() {}\nfunc B() {}\n\ntype c struct{}\n\nfunc (c) D() {}\n", ""},
		"ExactlyLongEnough": {"functions/api/main.go", "func up(a, b, c, d, e int) {\n" + lines(37) + "}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parse(c.path, []byte("package x\n"+c.code))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.complaints(), "\n"); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}
