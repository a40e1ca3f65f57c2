package metrics

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/packages"
)

// graph is the module's call graph. Its nodes are functions, methods, package variables, methods of interfaces, and
// struct fields that are written to. An edge leads from a declaration to
//   - what it calls or names: a function that is passed on as a value is read where it is named, and what a function literal
//     calls is called by the declaration around it;
//   - a package variable that it uses, which leads to the functions that the variable's initial value names;
//   - a field that it assigns, sets in a composite literal or takes the address of;
//
// and from an interface's method to every method of the module that implements it.
type graph struct {
	code  *Code
	edges map[types.Object][]types.Object
	// declared has the nodes with text that one reads: functions with a body and package variables.
	declared map[types.Object]declaration
	// imports are the packages that a package imports, by path, however indirectly.
	imports map[string]map[string]bool
	named   []*types.Named // types of the module that are no interface
}

// declaration is where a node's text is, doc comment included.
type declaration struct {
	name  string
	file  string
	line  int
	lines int
}

func (c *Code) graph() *graph {
	g := &graph{
		code: c, edges: map[types.Object][]types.Object{}, declared: map[types.Object]declaration{}, imports: map[string]map[string]bool{},
	}
	for _, p := range c.packages {
		g.importsOf(p)
		for _, object := range p.TypesInfo.Defs {
			g.addType(object)
		}
		for _, tree := range p.Syntax {
			for _, d := range tree.Decls {
				g.declare(p, d)
			}
		}
	}
	for method := range g.interfaceMethods() {
		g.edges[method] = g.implementations(method)
	}
	return g
}

func (g *graph) importsOf(p *packages.Package) map[string]bool {
	if found, ok := g.imports[p.PkgPath]; ok {
		return found
	}
	all := map[string]bool{p.PkgPath: true}
	g.imports[p.PkgPath] = all
	for path, imported := range p.Imports {
		if strings.HasPrefix(path, g.code.module+"/") {
			for path := range g.importsOf(imported) {
				all[path] = true
			}
		}
	}
	return all
}

func (g *graph) addType(object types.Object) {
	name, ok := object.(*types.TypeName)
	if !ok || name.IsAlias() {
		return
	}
	if named, ok := name.Type().(*types.Named); ok && !types.IsInterface(named) {
		g.named = append(g.named, named)
	}
}

// declare adds what a top-level declaration leads to.
func (g *graph) declare(p *packages.Package, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Body != nil {
			object := p.TypesInfo.Defs[d.Name]
			name := g.code.local(p.PkgPath) + "." + qualified(d)
			g.declared[object] = g.declaration(p, name, d, d.Doc)
			g.follow(p, object, d.Body)
		}
	case *ast.GenDecl:
		if d.Tok != token.VAR {
			return
		}
		for _, s := range d.Specs {
			g.declareVariables(p, d, s.(*ast.ValueSpec))
		}
	}
}

func (g *graph) declareVariables(p *packages.Package, d *ast.GenDecl, s *ast.ValueSpec) {
	var node ast.Node = s
	doc := s.Doc
	if !d.Lparen.IsValid() {
		node, doc = d, d.Doc
	}
	for i, name := range s.Names {
		object := p.TypesInfo.Defs[name]
		g.declared[object] = g.declaration(p, g.code.local(p.PkgPath)+"."+name.Name, node, doc)
		switch {
		case len(s.Values) == len(s.Names):
			g.follow(p, object, s.Values[i])
		case len(s.Values) == 1:
			g.follow(p, object, s.Values[0])
		}
	}
}

func (g *graph) declaration(p *packages.Package, name string, n ast.Node, doc *ast.CommentGroup) declaration {
	first := n.Pos()
	if doc != nil {
		first = doc.Pos()
	}
	i := g.code.item(p, n, "", 0)
	from, to := p.Fset.Position(first).Line, p.Fset.Position(n.End()).Line
	return declaration{name: name, file: i.File, line: i.Line, lines: to - from + 1}
}

// follow adds an edge to each function, package variable and written field in some code.
func (g *graph) follow(p *packages.Package, from types.Object, code ast.Node) {
	seen := map[types.Object]bool{}
	add := func(to types.Object) {
		if to != nil && to != from && !seen[to] {
			seen[to] = true
			g.edges[from] = append(g.edges[from], to)
		}
	}
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			switch o := p.TypesInfo.Uses[n].(type) {
			case *types.Func:
				add(o.Origin())
			case *types.Var:
				if o.Pkg() != nil && o.Parent() == o.Pkg().Scope() {
					add(o)
				}
			}
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				add(selectedField(p, x))
			}
		case *ast.IncDecStmt:
			add(selectedField(p, n.X))
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				add(selectedField(p, n.X))
			}
		case *ast.CompositeLit:
			for _, f := range literalFields(p, n) {
				add(f)
			}
		}
		return true
	})
}

// selectedField is the field that is written by an assignment to an expression, or to an element of it; nil if none.
func selectedField(p *packages.Package, x ast.Expr) types.Object {
	for {
		switch t := x.(type) {
		case *ast.ParenExpr:
			x = t.X
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.SelectorExpr:
			if v, ok := p.TypesInfo.Uses[t.Sel].(*types.Var); ok && v.IsField() {
				return v.Origin()
			}
			return nil
		default:
			return nil
		}
	}
}

// literalFields are the fields that a composite literal sets.
func literalFields(p *packages.Package, l *ast.CompositeLit) []types.Object {
	var out []types.Object
	t := types.Unalias(p.TypesInfo.TypeOf(l))
	if pointer, ok := t.Underlying().(*types.Pointer); ok { // an element of []*T whose type is left out
		t = pointer.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	for i, e := range l.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			out = append(out, s.Field(i).Origin())
			continue
		}
		if name, ok := kv.Key.(*ast.Ident); ok {
			if v, ok := p.TypesInfo.Uses[name].(*types.Var); ok {
				out = append(out, v.Origin())
			}
		}
	}
	return out
}

// interfaceMethods are those that some declaration calls.
func (g *graph) interfaceMethods() map[*types.Func]bool {
	out := map[*types.Func]bool{}
	for _, targets := range g.edges {
		for _, to := range targets {
			if f, ok := to.(*types.Func); ok && isInterfaceMethod(f) {
				out[f] = true
			}
		}
	}
	return out
}

// implementations are the methods of the module that a call of an interface's method may run, as far as types tell.
func (g *graph) implementations(method *types.Func) []types.Object {
	asked, ok := method.Signature().Recv().Type().Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	var out []types.Object
	for _, t := range g.named {
		if t.TypeParams().Len() > 0 {
			continue
		}
		pointer := types.NewPointer(t)
		if !types.Implements(pointer, asked) {
			continue
		}
		o, _, _ := types.LookupFieldOrMethod(pointer, true, method.Pkg(), method.Name())
		if f, ok := o.(*types.Func); ok && g.code.own(f) {
			out = append(out, f.Origin())
		}
	}
	return out
}
