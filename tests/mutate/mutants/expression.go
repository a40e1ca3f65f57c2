package mutants

import (
	"go/ast"
	"go/token"
	"go/types"
)

// negated are the comparisons that say the opposite.
var negated = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
}

// An exchange is the operator that takes another one's place, and the switch that does it.
type exchange struct {
	with         token.Token
	switchedCall string
}

// moved are the comparisons that differ where both sides are equal.
var moved = map[token.Token]exchange{
	token.LSS: {token.LEQ, "mutantLess"},
	token.LEQ: {token.LSS, "mutantLessEqual"},
	token.GTR: {token.GEQ, "mutantGreater"},
	token.GEQ: {token.GTR, "mutantGreaterEqual"},
}

var arithmetic = map[token.Token]exchange{
	token.ADD: {token.SUB, "mutantAdd"},
	token.SUB: {token.ADD, "mutantSubtract"},
	token.MUL: {token.QUO, "mutantMultiply"},
	token.QUO: {token.MUL, "mutantDivide"},
	token.REM: {token.MUL, "mutantRemainder"},
}

var logic = map[token.Token]exchange{
	token.LAND: {token.LOR, "mutantAnd"},
	token.LOR:  {token.LAND, "mutantOr"},
}

// addBinary adds the changes of an operator. A constant expression has to stay constant.
func (f *finder) addBinary(n *ast.BinaryExpr) {
	for _, operand := range []ast.Expr{n.X, n.Y} {
		if inner, ok := operand.(*ast.BinaryExpr); ok {
			f.outer[inner] = n
		}
	}
	if f.info.Types[n].Value != nil {
		return
	}
	if by, ok := moved[n.Op]; ok && f.isBool(n) {
		f.addOperator(Boundary, n, by, ", ", "")
	}
	if op, ok := negated[n.Op]; ok && f.isBool(n) {
		f.add(Negation, n, f.withOperator(n, op), call("mutantNegate"))
	}
	if by, ok := arithmetic[n.Op]; ok && f.isNumber(n) {
		f.addOperator(Arithmetic, n, by, ", ", "")
	}
	if by, ok := logic[n.Op]; ok && f.isBool(n) {
		// The parenthesis keeps a line break after "return" from ending the statement.
		f.addOperator(Logic, n, by, ", func() bool { return (", ")}")
	}
}

// addOperator adds the change of an operator. In the copy the operator becomes what separates the
// arguments of the switch.
func (f *finder) addOperator(kind string, n *ast.BinaryExpr, by exchange, separator, closing string) {
	w := call(by.switchedCall)
	w.wrap.after = closing + w.wrap.after
	w.wrap.level = innermost
	at := f.offset(n.OpPos)
	w.replaced = []span{{at, at + len(n.Op.String()), separator}}
	f.add(kind, n, f.withOperator(n, by.with), w)
}

// withOperator is the source of the expression with another operator, in the same grouping: where
// the other one binds more or less tightly, parentheses keep it.
func (f *finder) withOperator(n *ast.BinaryExpr, op token.Token) string {
	operand := func(e ast.Expr) string {
		if inner, ok := e.(*ast.BinaryExpr); ok && inner.Op.Precedence() < op.Precedence() {
			return "(" + f.sourceOf(e) + ")"
		}
		return f.sourceOf(e)
	}
	after := n.OpPos + token.Pos(len(n.Op.String()))
	text := operand(n.X) + f.between(n.X.End(), n.OpPos) + op.String() + f.between(after, n.Y.Pos()) + operand(n.Y)
	if outer := f.outer[n]; outer != nil && op.Precedence() < outer.Op.Precedence() {
		return "(" + text + ")"
	}
	return text
}

// addNot adds the removal of a "!".
func (f *finder) addNot(n *ast.UnaryExpr) {
	if n.Op == token.NOT && f.isBool(n) && f.info.Types[n].Value == nil {
		f.add(Negation, n, f.sourceOf(n.X), call("mutantNegate"))
	}
}

// addMinMax adds the exchange of the built-in functions min and max.
func (f *finder) addMinMax(n *ast.CallExpr) {
	name, ok := n.Fun.(*ast.Ident)
	if !ok || len(n.Args) < 2 || n.Ellipsis.IsValid() || f.info.Types[n].Value != nil {
		return
	}
	if _, builtin := f.info.Uses[name].(*types.Builtin); !builtin {
		return
	}
	other := map[string]string{"min": "max", "max": "min"}[name.Name]
	if other == "" {
		return
	}
	text := other + f.between(name.End(), n.End())
	from, to := f.offset(n.Pos()), f.offset(n.Lparen)+1
	f.add(Arithmetic, n, text, weave{replaced: []span{{from, to, "mutant" + capital(name.Name) + "(%d, "}}})
}

func capital(name string) string { return string(name[0]-'a'+'A') + name[1:] }

// addCondition adds a condition that always has the same value.
func (f *finder) addCondition(cond ast.Expr, always bool) {
	if !f.isBool(cond) || f.info.Types[cond].Value != nil {
		return
	}
	text, name := "false", "mutantFalse"
	if always {
		text, name = "true", "mutantTrue"
	}
	w := call(name)
	w.wrap.level = outermost
	if always {
		w.wrap.level++
	}
	f.add(Condition, cond, text, w)
}

// addCases adds conditions of a switch without a value.
func (f *finder) addCases(n *ast.SwitchStmt) {
	if n.Tag != nil {
		return
	}
	for _, s := range n.Body.List {
		for _, cond := range s.(*ast.CaseClause).List {
			f.addCondition(cond, true)
			f.addCondition(cond, false)
		}
	}
}

// isBool reports whether an expression has the type bool, and not one of another name.
func (f *finder) isBool(e ast.Expr) bool {
	basic, ok := f.info.Types[e].Type.(*types.Basic)
	return ok && basic.Info()&types.IsBoolean != 0
}

// isNumber reports whether an expression is a number: an operator on it can be exchanged.
func (f *finder) isNumber(e ast.Expr) bool {
	of := f.info.Types[e].Type
	if of == nil {
		return false
	}
	basic, ok := of.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsInteger|types.IsFloat) != 0
}
