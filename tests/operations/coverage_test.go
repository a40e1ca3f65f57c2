package main

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"berth/shared/wire/ecsapi"
)

// pathPattern returns a path with all of its names alike.
func pathPattern(path string) string { return names.ReplaceAllString(path, "{}") }

var names = regexp.MustCompile(`\{\w*\}`)

// Each member of the input of an operation that Berth answers itself, however deep, is read by its
// code, or refused as a whole: nothing can be accepted and dropped. Forwarded operations pass on what
// they got.
func TestEveryMemberIsReadOrRefused(t *testing.T) {
	m := fetched(t)
	forwarded, err := forwardedOperations(root)
	if err != nil {
		t.Fatal(err)
	}
	inputs, read := loadReads(t, "berth/shared/wire/ecsapi", "berth/shared/wire/shape", "berth/shared/wire/input")
	checked := 0
	for op := range m.ECS.Operations {
		if ecsapi.RefusedOperations()[op] != "" || forwarded[op] {
			continue
		}
		s := inputs[op]
		if s == nil {
			t.Errorf("the SDK has no input of %s", op)
			continue
		}
		w := &walk{t: t, op: op, read: read, refused: isRefused, deep: true}
		w.members(s, op+"Input", "")
		checked += w.count
		for name := range m.ECS.Shapes[m.ECS.Operations[op].Input.Shape].Members {
			if !slices.Contains(w.top, name) {
				t.Errorf("%s.%s is in botocore's model, but not in the SDK", op, name)
			}
		}
	}
	if checked < 150 {
		t.Errorf("only %d members were checked", checked)
	}
}

// unread are members of forwarded operations that the simulated ECS may leave alone, with the reason.
var unread = map[string]string{
	"RegisterContainerInstance.instanceIdentityDocumentSignature": "there is no EC2 that could have signed it",
	"DiscoverPollEndpoint.cluster":                                "ECS answers the same for any",
	"DiscoverPollEndpoint.containerInstance":                      "ECS answers the same for any",
}

// The simulated ECS, too, reads all members of the operations that Berth forwards to it.
func TestTheSimulatedECSReadsEveryMember(t *testing.T) {
	forwarded, err := forwardedOperations(root)
	if err != nil {
		t.Fatal(err)
	}
	inputs, read := loadReads(t, "berth/shared/sim/ecs")
	checked := 0
	for op := range forwarded {
		w := &walk{t: t, op: op, read: read, refused: func(op, path string) bool {
			return isRefused(op, path) || unread[op+"."+path] != ""
		}}
		w.members(inputs[op], op+"Input", "")
		checked += w.count
	}
	if checked < 60 {
		t.Errorf("only %d members were checked", checked)
	}
}

// loadReads returns the inputs of the SDK's operations, and the fields that the packages read.
func loadReads(t *testing.T, paths ...string) (inputs map[string]*types.Struct, read map[string]bool) {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{
		Dir: root, Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
	}, paths...)
	if err != nil || len(loaded) != len(paths) {
		t.Fatalf("loading %d packages: %v", len(loaded), err)
	}
	inputs, read = map[string]*types.Struct{}, map[string]bool{}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			t.Fatal(p.Errors[0])
		}
		noteReads(p, read)
		if sdk := p.Imports["github.com/aws/aws-sdk-go-v2/service/ecs"]; sdk != nil {
			addInputs(sdk.Types, inputs)
		}
	}
	return inputs, read
}

// noteReads notes the fields that a package reads, by type and name. A field that is assigned to is
// not read.
func noteReads(p *packages.Package, read map[string]bool) {
	assigned := map[ast.Expr]bool{}
	for _, file := range p.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok {
				for _, left := range a.Lhs {
					assigned[left] = true
				}
			}
			return true
		})
	}
	for x, s := range p.TypesInfo.Selections {
		if s.Kind() != types.FieldVal || assigned[x] {
			continue
		}
		owner := s.Recv()
		for _, i := range s.Index()[:len(s.Index())-1] {
			owner = structOf(owner).Field(i).Type()
		}
		read[typeName(owner)+"."+x.Sel.Name] = true
		// A type of Berth's own that embeds an input may have a member with a type that reads more.
		for field := range structOf(owner).Fields() {
			if field.Embedded() {
				read[typeName(field.Type())+"."+x.Sel.Name] = true
				read[typeName(field.Type())+"."+x.Sel.Name+replaced] = true
			}
		}
	}
}

// replaced follows the name of a member that is read by a type of Berth's own.
const replaced = " replaced"

func structOf(t types.Type) *types.Struct {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	return t.Underlying().(*types.Struct)
}

func typeName(t types.Type) string {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}

// addInputs adds the inputs of the SDK's operations.
func addInputs(sdk *types.Package, inputs map[string]*types.Struct) {
	for _, name := range sdk.Scope().Names() {
		op, is := strings.CutSuffix(name, "Input")
		if s, ok := sdk.Scope().Lookup(name).Type().Underlying().(*types.Struct); is && ok {
			inputs[op] = s
		}
	}
}

// A walk visits the members of one operation's input.
type walk struct {
	t    *testing.T
	op   string
	read map[string]bool
	// refused reports whether a member need not be read.
	refused func(op, path string) bool
	deep    bool // visits the members of members, too
	count   int
	top     []string // the members of the input itself
}

func (w *walk) members(s *types.Struct, of, path string) {
	for field := range s.Fields() {
		if !field.Exported() {
			continue
		}
		member := strings.ToLower(field.Name()[:1]) + field.Name()[1:]
		if path == "" {
			w.top = append(w.top, member)
		}
		full := strings.TrimPrefix(path+"."+member, ".")
		if w.refused(w.op, full) {
			continue
		}
		w.count++
		if !w.read[of+"."+field.Name()] {
			w.t.Errorf("%s.%s is neither read nor refused", w.op, full)
		}
		if next, name := element(field.Type()); w.deep && next != nil && !w.read[of+"."+field.Name()+replaced] {
			w.members(next, name, full)
		}
	}
}

// element returns the structure of the SDK that a member consists of, nil for anything else.
func element(t types.Type) (*types.Struct, string) {
	switch u := t.(type) {
	case *types.Pointer:
		return element(u.Elem())
	case *types.Slice:
		return element(u.Elem())
	case *types.Named:
		s, ok := u.Underlying().(*types.Struct)
		if !ok || !strings.HasSuffix(u.Obj().Pkg().Path(), "/ecs/types") {
			return nil, ""
		}
		return s, u.Obj().Name()
	}
	return nil, ""
}
