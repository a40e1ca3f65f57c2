package template

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/go/packages"
)

// A callGraph has a package's functions by name (T.Method for methods): which functions and
// interface methods of the package each uses, and which operations of AWS it calls.
type callGraph map[string]*functionCalls

type functionCalls struct{ uses, calls []string }

// An emptyImporter imports no package: declarations of other packages do not matter.
type emptyImporter struct{}

func (emptyImporter) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

// parsePackage reads the package in a directory.
func parsePackage(t *testing.T, dir string) callGraph {
	t.Helper()
	fset := token.NewFileSet()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	_, _ = (&types.Config{Importer: emptyImporter{}, Error: func(error) {}}).Check(dir, fset, files, info)
	out := callGraph{}
	for _, f := range files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				out[objectName(info.Defs[d.Name])] = bodyOf(d, info, servicePrefix(f))
			}
		}
	}
	return out
}

func bodyOf(d *ast.FuncDecl, info *types.Info, service string) *functionCalls {
	f := &functionCalls{}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if used := objectName(info.Uses[n]); used != "" {
				f.uses = append(f.uses, used)
			}
			if operation, pages := strings.CutSuffix(strings.TrimPrefix(n.Name, "New"), "Paginator"); pages {
				f.calls = append(f.calls, service+":"+operation)
			}
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Client" && ast.IsExported(n.Sel.Name) {
				f.calls = append(f.calls, service+":"+n.Sel.Name)
			}
		}
		return true
	})
	return f
}

// servicePrefix returns IAM's prefix for the service whose client a file uses.
func servicePrefix(f *ast.File) string {
	for _, i := range f.Imports {
		if _, name, ok := strings.Cut(strings.Trim(i.Path.Value, `"`), "aws-sdk-go-v2/service/"); ok && !strings.Contains(name, "/") {
			return strings.NewReplacer("eventbridge", "events", "elasticloadbalancingv2", "elasticloadbalancing").Replace(name)
		}
	}
	return ""
}

func objectName(o types.Object) string {
	f, ok := o.(*types.Func)
	if !ok {
		return ""
	}
	if recv := f.Signature().Recv(); recv != nil {
		of := recv.Type()
		if p, ok := of.(*types.Pointer); ok {
			of = p.Elem()
		}
		if named, ok := of.(*types.Named); ok {
			return named.Obj().Name() + "." + f.Name()
		}
	}
	return f.Name()
}

// reachableFrom returns all that the functions use, directly or not.
func (c callGraph) reachableFrom(from []string) map[string]bool {
	seen := map[string]bool{}
	for len(from) > 0 {
		at := from[0]
		from = from[1:]
		if !seen[at] {
			seen[at] = true
			if f := c[at]; f != nil {
				from = append(from, f.uses...)
			}
		}
	}
	return seen
}

// operationsOf returns the operations that the adapters in some packages call for a port's method,
// by the method's name.
func operationsOf(t *testing.T, dirs ...string) map[string][]string {
	out := map[string][]string{}
	for _, dir := range dirs {
		c := parsePackage(t, dir)
		for method := range c {
			_, called, ok := strings.Cut(method, ".")
			if !ok || !ast.IsExported(called) {
				continue
			}
			for of := range c.reachableFrom([]string{method}) {
				if f := c[of]; f != nil {
					out[called] = append(out[called], f.calls...)
				}
			}
		}
	}
	return out
}

// loadHandlers reads the handlers' packages and the packages that they share, with types. A
// function's name begins with its package's path.
func loadHandlers(t *testing.T) callGraph {
	t.Helper()
	config := &packages.Config{
		Dir:  "../..",
		Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}
	loaded, err := packages.Load(config, "./shared/handler/...", "./shared/observe")
	if err != nil {
		t.Fatal(err)
	}
	out := callGraph{}
	for _, p := range loaded {
		for _, f := range p.Syntax {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
					out[pathName(p.TypesInfo.Defs[d.Name])] = handlerBody(d, p.TypesInfo)
				}
			}
		}
	}
	return out
}

// handlerBody lists the functions and methods that a handler's function uses.
func handlerBody(d *ast.FuncDecl, info *types.Info) *functionCalls {
	f := &functionCalls{}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if used := pathName(info.Uses[id]); used != "" {
				f.uses = append(f.uses, used)
			}
		}
		return true
	})
	return f
}

func pathName(o types.Object) string {
	if n := objectName(o); n != "" && o.Pkg() != nil {
		return o.Pkg().Path() + "." + n
	}
	return ""
}

// handlerMethods returns the methods of a handler's package that a function's main invokes: those
// that it names, or all of them if it passes the handler on.
func handlerMethods(t *testing.T, file string, handlers callGraph) (out []string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	handler := ""
	for _, i := range f.Imports {
		if p := strings.Trim(i.Path.Value, `"`); strings.HasPrefix(p, "berth/shared/handler/") {
			handler = p
		}
	}
	if handler == "" {
		t.Fatalf("%s imports no handler", file)
	}
	literal, named := false, map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok {
			if s, ok := lit.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Handler" {
				literal = true
			}
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "h" {
				named[s.Sel.Name] = true
			}
		}
		return true
	})
	for method := range handlers {
		rest, ok := strings.CutPrefix(method, handler+".")
		_, called, _ := strings.Cut(rest, ".")
		if ok && ast.IsExported(called) && (!literal || named[called]) {
			out = append(out, method)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s starts nothing of %s", file, handler)
	}
	return out
}

// allowedActions returns the actions that a role allows.
func allowedActions(n *yaml.Node) (out []string) {
	for _, a := range contentOf(memberOf(n, "Action")) {
		out = append(out, a.Value)
	}
	for _, below := range n.Content {
		out = append(out, allowedActions(below)...)
	}
	return out
}

// TestRolesAllowWhatFunctionsCall finds missing permissions, which otherwise show only when a
// function makes the call.
func TestRolesAllowWhatFunctionsCall(t *testing.T) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	const awsapi = "../../shared/awsapi/"
	handlers := loadHandlers(t)
	calls := operationsOf(t, awsapi, awsapi+"autoscaling", awsapi+"launchtemplate", awsapi+"cloudwatch",
		awsapi+"balancing", awsapi+"eventbus")
	resources, checked := memberOf(root.Content[0], "Resources"), map[string]bool{}
	for i := 0; i+1 < len(resources.Content); i += 2 {
		if memberOf(resources.Content[i+1], "Type").Value != "AWS::Serverless::Function" {
			continue
		}
		p := memberOf(resources.Content[i+1], "Properties")
		allowed := allowedActions(memberOf(resources, referredResource(memberOf(p, "Role"))))
		for used := range handlers.reachableFrom(handlerMethods(t, "../../"+memberOf(p, "CodeUri").Value+"main.go",
			handlers)) {
			method := used[strings.LastIndexByte(used, '.')+1:]
			if handlers[used] != nil || !strings.HasPrefix(used, "berth/shared/handler") { // a function, not a port
				continue
			}
			for _, operation := range calls[method] {
				checked[operation] = true
				if !slices.Contains(allowed, operation) {
					t.Errorf("%s may not call %s, which %s needs", resources.Content[i].Value, operation, used)
				}
			}
		}
	}
	for _, operation := range []string{"ecs:StartTask", "ecs:ListContainerInstances",
		"autoscaling:UpdateAutoScalingGroup", "ec2:CreateLaunchTemplateVersion", "cloudwatch:PutMetricData",
		"elasticloadbalancing:RegisterTargets"} {
		if !checked[operation] {
			t.Errorf("no function is seen to call %s: %v", operation, slices.Sorted(maps.Keys(checked)))
		}
	}
}
