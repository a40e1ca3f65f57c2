package metrics

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Item is one thing that was measured.
type Item struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	N    int    `json:"n"`
}

// methods measures every defined type: the methods that it declares, of an interface all that it asks for.
func (c *Code) methods() []Item {
	var out []Item
	for _, p := range c.packages {
		for ident, object := range p.TypesInfo.Defs {
			name, ok := object.(*types.TypeName)
			if !ok || name.IsAlias() {
				continue
			}
			named, ok := name.Type().(*types.Named)
			if !ok {
				continue
			}
			n := named.NumMethods()
			if i, ok := named.Underlying().(*types.Interface); ok {
				n = i.NumMethods()
			}
			out = append(out, c.item(p, ident, ident.Name, n))
		}
	}
	return out
}

func (c *Code) item(p *packages.Package, at ast.Node, name string, n int) Item {
	file, line, _ := strings.Cut(c.position(p, at.Pos()), ":")
	i := Item{Name: c.local(p.PkgPath) + "." + name, File: file, N: n}
	fmt.Sscan(line, &i.Line)
	return i
}

// fields measures every struct type, also those without a name; an embedded type is one field. The second answer are
// the fields that hold a context.
func (c *Code) fields() (structs, contexts []Item) {
	for _, p := range c.packages {
		for _, tree := range p.Syntax {
			name := "" // of the type declaration around
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					name = n.Name.Name
				case *ast.FuncDecl:
					name = n.Name.Name
				case *ast.StructType:
					s, ok := p.TypesInfo.TypeOf(n).(*types.Struct)
					if !ok {
						return true
					}
					structs = append(structs, c.item(p, n, name, s.NumFields()))
					for i := range s.NumFields() {
						if isContext(s.Field(i).Type()) {
							contexts = append(contexts, c.item(p, n, name+"."+s.Field(i).Name(), 1))
						}
					}
				}
				return true
			})
		}
	}
	return structs, contexts
}

func isContext(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Context" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "context"
}

// promotedTwice are the fields that some expression selects through more than one embedded type, with how many
// expressions do. Fields of other modules' types do not count.
func (c *Code) promotedTwice() []Item {
	uses := map[string]*Item{}
	for _, p := range c.packages {
		for expr, sel := range p.TypesInfo.Selections {
			if sel.Kind() != types.FieldVal || len(sel.Index()) <= 2 || !c.own(sel.Obj()) {
				continue
			}
			name := types.TypeString(sel.Recv(), func(p *types.Package) string { return c.local(p.Path()) })
			name = strings.TrimPrefix(name, "*") + "." + sel.Obj().Name()
			if uses[name] == nil {
				i := c.item(p, expr, "", 0)
				i.Name = name
				uses[name] = &i
			}
			uses[name].N++
		}
	}
	var out []Item
	for _, i := range uses {
		out = append(out, *i)
	}
	return out
}

// own reports whether an object is declared in the module.
func (c *Code) own(o types.Object) bool {
	return o.Pkg() != nil && (o.Pkg().Path() == c.module || strings.HasPrefix(o.Pkg().Path(), c.module+"/"))
}

// folders measures the files of each folder.
func (c *Code) folders() []Item {
	n := map[string]int{}
	for _, f := range c.measured() {
		n[f.folder()]++
	}
	var out []Item
	for name, n := range n {
		out = append(out, Item{Name: name, N: n})
	}
	return out
}

// functions measures every function from the line with "func" to its last.
func (c *Code) functions() []Item {
	var out []Item
	for _, f := range c.measured() {
		for _, d := range functionsOf(f) {
			out = append(out, Item{
				Name: f.folder() + "." + qualified(d), File: f.path, Line: f.set.Position(d.Pos()).Line,
				N: f.set.Position(d.End()).Line - f.set.Position(d.Pos()).Line + 1,
			})
		}
	}
	return out
}

func functionsOf(f file) []*ast.FuncDecl {
	var out []*ast.FuncDecl
	for _, d := range f.ast.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			out = append(out, d)
		}
	}
	return out
}

// qualified is a function's name, a method's with its receiver's.
func qualified(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	receiver := strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*")
	receiver, _, _ = strings.Cut(receiver, "[")
	return receiver + "." + d.Name.Name
}

// fileLengths measures files, tests or not tests.
func fileLengths(files []file, tests bool) []Item {
	var out []Item
	for _, f := range files {
		if f.test() == tests {
			out = append(out, Item{Name: f.path, N: bytes.Count(f.source, []byte("\n"))})
		}
	}
	return out
}
