package metrics

import (
	"cmp"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Pair is two things that use each other.
type Pair struct {
	A    string `json:"a"`
	B    string `json:"b"`
	AtoB int    `json:"aToB"` // uses of B in A
	BtoA int    `json:"bToA"`
}

// InnerCalls says how the files of one package use each other's functions.
type InnerCalls struct {
	Package string `json:"package"`
	// Calls are uses of a function or method that another file of the package declares.
	Calls int `json:"calls"`
	// Up are those that run back up: of each pair of files that use each other the direction with fewer uses.
	Up    int    `json:"up"`
	Pairs []Pair `json:"pairs,omitempty"`
}

// innerCalls looks at each package with calls between its files. Naming a function without calling it is a use as well;
// calls through an interface are not, as they name no file.
func (c *Code) innerCalls() []InnerCalls {
	var out []InnerCalls
	for _, p := range c.packages {
		uses := map[[2]string]int{}
		total := 0
		for ident, object := range p.TypesInfo.Uses {
			f, ok := object.(*types.Func)
			if !ok || f.Pkg() != p.Types || isInterfaceMethod(f) {
				continue
			}
			from, to := fileOf(p, ident.Pos()), fileOf(p, f.Pos())
			if from != to {
				uses[[2]string{from, to}]++
				total++
			}
		}
		if total == 0 {
			continue
		}
		in := InnerCalls{Package: c.local(p.PkgPath), Calls: total, Pairs: twoWay(uses)}
		for _, pair := range in.Pairs {
			in.Up += min(pair.AtoB, pair.BtoA)
		}
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b InnerCalls) int {
		return cmp.Or(cmp.Compare(b.Up, a.Up), cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Package, b.Package))
	})
	return out
}

func isInterfaceMethod(f *types.Func) bool {
	r := f.Signature().Recv()
	return r != nil && types.IsInterface(r.Type())
}

func fileOf(p *packages.Package, pos token.Pos) string {
	return path.Base(p.Fset.Position(pos).Filename)
}

// twoWay are the pairs that have uses in both directions, those with the most on the lesser side first.
func twoWay(uses map[[2]string]int) []Pair {
	var out []Pair
	for k, n := range uses {
		back := uses[[2]string{k[1], k[0]}]
		if k[0] < k[1] && back > 0 {
			out = append(out, Pair{A: k[0], B: k[1], AtoB: n, BtoA: back})
		}
	}
	slices.SortFunc(out, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(min(b.AtoB, b.BtoA), min(a.AtoB, a.BtoA)), strings.Compare(a.A, b.A), strings.Compare(a.B, b.B))
	})
	return out
}

// folderPairs are sibling folders that import each other, counted with all that is below them, in imports. Two packages
// cannot; two folders of packages can. Each import counts for the pair of siblings where the paths part.
func (c *Code) folderPairs() []Pair {
	uses := map[[2]string]int{}
	for _, p := range c.packages {
		for imported := range p.Imports {
			if !strings.HasPrefix(imported, c.module+"/") {
				continue
			}
			if a, b, ok := siblings(c.local(p.PkgPath), c.local(imported)); ok {
				uses[[2]string{a, b}]++
			}
		}
	}
	return twoWay(uses)
}

// siblings are the folders where two paths part; false where one is above the other.
func siblings(a, b string) (string, string, bool) {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return strings.Join(as[:i+1], "/"), strings.Join(bs[:i+1], "/"), true
		}
	}
	return "", "", false
}
