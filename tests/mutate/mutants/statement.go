package mutants

import (
	"go/ast"
	"go/token"
	"go/types"
)

// assigned are the operators of assignments that can be exchanged.
var assigned = map[token.Token]token.Token{
	token.ADD_ASSIGN: token.ADD, token.SUB_ASSIGN: token.SUB, token.MUL_ASSIGN: token.MUL,
	token.QUO_ASSIGN: token.QUO, token.REM_ASSIGN: token.REM,
}

// addStatements adds the changes of the statements of a block: what can be removed without an error
// of the compiler, and operators of assignments.
func (f *finder) addStatements(list []ast.Stmt) {
	for n, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			f.addAssignment(s)
		case *ast.IncDecStmt:
			f.addStep(s)
			f.addRemoval(s)
		case *ast.ExprStmt:
			if c, ok := s.X.(*ast.CallExpr); ok && !f.isPanic(c) {
				f.addRemoval(s)
			}
		case *ast.BranchStmt:
			if s.Tok == token.BREAK || s.Tok == token.CONTINUE {
				f.addRemoval(s)
			}
		case *ast.ReturnStmt: // a last one without results has no effect; one with results has to stay
			if len(s.Results) == 0 && n < len(list)-1 {
				f.addRemoval(s)
			}
		case *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
			f.addRemoval(s)
		}
	}
}

// isPanic reports whether a call is one of panic, which ends a function as a return does.
func (f *finder) isPanic(c *ast.CallExpr) bool {
	name, ok := c.Fun.(*ast.Ident)
	if !ok {
		return false
	}
	_, builtin := f.info.Uses[name].(*types.Builtin)
	return builtin && name.Name == "panic"
}

func (f *finder) addRemoval(s ast.Stmt) {
	f.add(Removal, s, "", weave{wrap: wrap{before: "if mutantKeep(%d) { ", after: " }", level: outermost}})
}

func (f *finder) addAssignment(s *ast.AssignStmt) {
	if s.Tok == token.DEFINE || isBlank(s.Lhs) {
		return
	}
	f.addRemoval(s)
	op, ok := assigned[s.Tok]
	if !ok || !f.isNumber(s.Lhs[0]) {
		return
	}
	by := arithmetic[op]
	left, at := f.sourceOf(s.Lhs[0]), f.offset(s.TokPos)
	length := len(s.Tok.String())
	text := left + " " + by.with.String() + "= " + f.sourceOf(s.Rhs[0])
	f.add(Arithmetic, s, text, weave{
		wrap:     wrap{after: ")", level: innermost},
		replaced: []span{{at, at + length, "= " + by.switchedCall + "(%d, " + left + ", "}},
	})
}

func isBlank(list []ast.Expr) bool {
	for _, e := range list {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

// addStep exchanges ++ and --.
func (f *finder) addStep(s *ast.IncDecStmt) {
	other := "--"
	if s.Tok == token.DEC {
		other = "++"
	}
	text := f.sourceOf(s.X) + other
	f.add(Arithmetic, s, text, weave{
		wrap: wrap{before: "if mutantKeep(%d) { ", after: " } else { " + text + " }", level: innermost},
	})
}
