package mutants

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// The kinds of change.
const (
	Boundary   = "boundary"   // < becomes <=
	Negation   = "negation"   // == becomes !=, !x becomes x
	Arithmetic = "arithmetic" // + becomes -, min becomes max
	Logic      = "logic"      // && becomes ||
	Condition  = "condition"  // the condition of an if, a case or a loop is always true, or false
	Removal    = "removal"    // the statement is not there
)

// A Mutant is one change of the code.
type Mutant struct {
	Package  string `json:"package"` // its folder, from the root: shared/scaling
	File     string `json:"file"`    // from the root
	Line     int    `json:"line"`
	Function string `json:"function"` // with its receiver: view.isTakeable
	Kind     string `json:"kind"`
	// Before and After are the expression or statement that changes, on one line. After is empty if
	// the statement is removed.
	Before string `json:"before"`
	After  string `json:"after"`
	// Nth tells changes apart that are alike and in one function, by their order there: 1, 2, ...
	Nth int `json:"nth"`

	id         int // of its switch, from 1
	path       string
	start, end int // offsets in the file of what After replaces
	text       string
	weave      weave
}

// String names the change as the list of kept ones does.
func (m *Mutant) String() string {
	s := fmt.Sprintf("%s %s: %s", m.Package, m.Function, m.Before)
	if m.After == "" {
		s = fmt.Sprintf("%s %s: without %s", m.Package, m.Function, m.Before)
	} else {
		s += " becomes " + m.After
	}
	if m.Nth > 1 {
		s += fmt.Sprintf(" (number %d)", m.Nth)
	}
	return s
}

// Tree is a folder of the module with its subfolders: the code that is changed, and the packages
// whose tests have to notice.
type Tree struct {
	root     string
	packages []*packages.Package
	// Mutants are all possible changes, by file and position.
	Mutants []*Mutant
}

// Find reads a folder, given as a path in the module at root, and lists its possible changes.
func Find(root, folder string) (*Tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	pattern := "./" + filepath.ToSlash(filepath.Clean(folder)) + "/..."
	loaded, err := packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
	}, pattern)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", pattern, err)
	}
	t := &Tree{root: root, packages: loaded}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("loading %s: %w", p.PkgPath, p.Errors[0])
		}
		for n, file := range p.Syntax {
			found, err := findInFile(root, p, p.GoFiles[n], file)
			if err != nil {
				return nil, err
			}
			t.Mutants = append(t.Mutants, found...)
		}
	}
	slices.SortStableFunc(t.Mutants, func(a, b *Mutant) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.start, b.start))
	})
	numberAlike(t.Mutants)
	if len(t.Mutants) == 0 {
		return nil, fmt.Errorf("no change is possible in %s: it has no Go code", folder)
	}
	return t, nil
}

// numberAlike sets Nth.
func numberAlike(all []*Mutant) {
	count := map[string]int{}
	for _, m := range all {
		key := m.key()
		count[key]++
		m.Nth = count[key]
	}
}

// key is the same for changes that are alike and in one function. It has no line number, so that it
// survives changes elsewhere in the file.
func (m *Mutant) key() string {
	return strings.Join([]string{m.Package, m.Function, m.Before, m.After}, "\x00")
}

// A finder collects the changes of one function.
type finder struct {
	source   []byte
	set      *token.FileSet
	info     *types.Info
	function string
	outer    map[*ast.BinaryExpr]*ast.BinaryExpr // that an expression is an operand of
	found    []*Mutant
}

func findInFile(root string, p *packages.Package, path string, file *ast.File) ([]*Mutant, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	f := &finder{source: source, set: p.Fset, info: p.TypesInfo, outer: map[*ast.BinaryExpr]*ast.BinaryExpr{}}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			f.function = functionName(d)
			ast.Inspect(d, f.visit)
		case *ast.GenDecl:
			if d.Tok == token.VAR { // functions in variables
				f.function = variableName(d)
				ast.Inspect(d, f.visit)
			}
		}
	}
	for _, m := range f.found {
		m.path, m.File = path, filepath.ToSlash(rel)
		m.Package = filepath.ToSlash(filepath.Dir(rel))
	}
	return f.found, nil
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	receiver := types.ExprString(d.Recv.List[0].Type)
	receiver, _, _ = strings.Cut(strings.TrimPrefix(receiver, "*"), "[")
	return receiver + "." + d.Name.Name
}

func variableName(d *ast.GenDecl) string {
	for _, s := range d.Specs {
		if v, ok := s.(*ast.ValueSpec); ok && len(v.Names) > 0 {
			return v.Names[0].Name
		}
	}
	return "var"
}

// visit adds the changes of one node.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl: // constants have to stay constants, and types have no code
		return n.Tok == token.VAR
	case *ast.BinaryExpr:
		f.addBinary(n)
	case *ast.UnaryExpr:
		f.addNot(n)
	case *ast.CallExpr:
		f.addMinMax(n)
	case *ast.IfStmt:
		f.addCondition(n.Cond, true)
		f.addCondition(n.Cond, false)
	case *ast.ForStmt:
		if n.Cond != nil { // a loop that never ends is noticed by the time it takes, so only false
			f.addCondition(n.Cond, false)
		}
	case *ast.SwitchStmt:
		f.addCases(n)
	case *ast.BlockStmt:
		f.addStatements(n.List)
	case *ast.CaseClause:
		f.addStatements(n.Body)
	case *ast.CommClause:
		f.addStatements(n.Body)
	}
	return true
}

// add adds the change of a node to a text, which is empty to remove it.
func (f *finder) add(kind string, n ast.Node, text string, w weave) {
	start, end := f.offset(n.Pos()), f.offset(n.End())
	w.wrap.start, w.wrap.end = start, end
	f.found = append(f.found, &Mutant{
		Line: f.set.Position(n.Pos()).Line, Function: f.function, Kind: kind,
		Before: joinLines(string(f.source[start:end])),
		After:  joinLines(text), start: start, end: end, text: text, weave: w,
	})
}

func (f *finder) offset(p token.Pos) int { return f.set.Position(p).Offset }

// between is the source from one position to another.
func (f *finder) between(from, to token.Pos) string {
	return string(f.source[f.offset(from):f.offset(to)])
}

func (f *finder) sourceOf(n ast.Node) string { return f.between(n.Pos(), n.End()) }

// joinLines puts a text on one line, with single spaces.
func joinLines(s string) string { return strings.Join(strings.Fields(s), " ") }
