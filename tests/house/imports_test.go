// Package house checks the project's own rules: which package may import which, what the pure core
// must not touch, and how long things may be.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "berth"

// pkg is the part of `go list -json` that the rules look at.
type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// graph is all packages of the module with everything they depend on, by import path.
type graph map[string]pkg

// rule is what one package, or all below a folder (ending in "/..."), may import of this module.
type rule struct {
	path string
	may  []string
	// pure: no AWS SDK however indirectly, no network, log, randomness, files or environment, tests
	// included.
	pure bool
	// noAWS: no AWS SDK however indirectly.
	noAWS bool
}

// rules is the import direction: functions, cmd → adapters, wire, console, handler; handler →
// service, placement, scaling, nodegroup, awsevent → cluster; scaling → placement; adapters and sim
// → wire, awsevent, cluster. The first that matches holds.
var rules = []rule{
	{path: "shared/choice", pure: true},
	{path: "shared/cluster", may: []string{"shared/choice"}, pure: true},
	{path: "shared/operation", may: []string{"shared/cluster"}, pure: true},
	{path: "shared/state", may: []string{"shared/cluster"}, pure: true},
	{path: "shared/tally", pure: true},
	{path: "shared/snapshot", may: []string{"shared/state", "shared/tally", "shared/cluster"}, pure: true},
	{path: "shared/constraint", pure: true},
	{path: "shared/spelling", may: []string{"shared/choice", "shared/constraint", "shared/snapshot", "shared/cluster"}, pure: true},
	{path: "shared/placement/domain", may: []string{"shared/cluster"}, pure: true},
	{path: "shared/placement/eligibility", pure: true, may: []string{
		"shared/constraint", "shared/snapshot", "shared/cluster",
	}},
	{path: "shared/placement/packing", pure: true, may: []string{
		"shared/placement/eligibility", "shared/state", "shared/constraint", "shared/snapshot", "shared/cluster",
		"tests/gpurows",
	}},
	{path: "shared/placement/rebalance", pure: true},
	{path: "shared/placement/moves", pure: true, may: []string{
		"shared/placement", "shared/placement/domain", "shared/placement/eligibility", "shared/placement/rebalance",
		"shared/constraint", "shared/snapshot", "shared/state", "shared/cluster", "tests/oracle",
	}},
	{path: "shared/placement", pure: true, may: []string{
		"shared/placement/domain", "shared/placement/eligibility", "shared/placement/packing", "shared/constraint",
		"shared/snapshot", "shared/state", "shared/tally", "shared/cluster", "tests/gpurows", "tests/oracle",
	}},
	{path: "shared/servicefabric", may: []string{"shared/choice", "shared/state", "shared/cluster"}, pure: true},
	{path: "shared/service", may: []string{"shared/state", "shared/cluster"}, pure: true},
	{path: "shared/scaling", may: []string{"shared/placement/...", "shared/snapshot", "shared/state", "shared/cluster"},
		pure: true},
	{path: "shared/nodegroup", may: []string{"shared/state", "shared/cluster"}, pure: true},
	{path: "shared/quota", may: []string{"shared/state"}, pure: true},
	{path: "shared/awsevent", may: []string{"shared/state", "shared/cluster"}, pure: true},
	{path: "shared/decide/plan", pure: true, may: []string{"shared/snapshot", "shared/state", "shared/cluster"}},
	{path: "shared/decide/specs", pure: true, may: []string{"shared/placement/...", "shared/snapshot", "shared/state",
		"shared/cluster"}},
	{path: "shared/decide", pure: true, may: []string{
		"shared/decide/plan", "shared/decide/specs", "shared/service", "shared/placement/...", "shared/constraint",
		"shared/spelling", "shared/scaling", "shared/snapshot", "shared/state", "shared/cluster",
	}},
	{path: "shared/observe", noAWS: true, may: []string{
		"shared/decide", "shared/snapshot", "shared/state", "shared/cluster",
	}},
	{path: "shared/handler", noAWS: true, may: []string{"shared/decide", "shared/state", "shared/cluster"}},
	{path: "shared/handler/...", noAWS: true, may: []string{
		"shared/handler/...", "shared/decide/...", "shared/observe", "shared/awsevent", "shared/operation",
		"shared/service", "shared/placement/...", "shared/constraint", "shared/choice",
		"shared/scaling", "shared/nodegroup", "shared/quota", "shared/snapshot", "shared/state", "shared/cluster",
	}},
	{path: "shared/wire/access", may: []string{"shared/cluster"}},
	{path: "shared/wire/transport", may: []string{"shared/wire/access", "shared/cluster"}},
	{path: "shared/wire/stsapi", may: []string{"shared/wire/transport", "shared/cluster"}},
	{path: "shared/wire/input", may: []string{"shared/choice", "shared/operation", "shared/cluster"}},
	{path: "shared/wire/awsjson", may: []string{"shared/choice", "shared/wire/transport", "shared/cluster"}},
	{path: "shared/wire/shape", may: []string{"shared/wire/input", "shared/cluster"}},
	{path: "shared/wire/answer", may: []string{"shared/operation"}},
	{path: "shared/wire/ecsapi", may: []string{"shared/wire/access", "shared/wire/answer", "shared/wire/awsjson",
		"shared/wire/input", "shared/wire/shape",
		"shared/wire/transport", "shared/choice", "shared/operation", "shared/cluster"}},
	{path: "shared/wire/eksapi", may: []string{"shared/choice", "shared/wire/awsjson", "shared/wire/input", "shared/wire/shape",
		"shared/wire/transport", "shared/operation", "shared/cluster"}},
	{path: "shared/wire/berthapi", may: []string{"shared/wire/awsjson", "shared/wire/eksapi", "shared/wire/input",
		"shared/state", "shared/operation", "shared/cluster"}},
	{path: "shared/wire", may: []string{"shared/wire/...", "shared/cluster", "tests/servicemodel"}},
	{path: "shared/console", may: []string{"shared/state", "shared/cluster"}},
	{path: "shared/dynamo/...", may: []string{"shared/awsapi/outcome", "shared/awsevent", "shared/state",
		"shared/cluster"}},
	{path: "shared/awsapi/...", may: []string{"shared/wire/shape", "shared/awsevent", "shared/state",
		"shared/cluster"}},
	{path: "shared/datafile", may: []string{"shared/cluster"}},
	{path: "shared/embedded/...", may: []string{"shared/datafile", "shared/awsevent", "shared/state",
		"shared/cluster"}},
	// The simulated AWS: its services share the kernel and know each other only in this order.
	{path: "shared/sim/kernel", may: []string{"shared/datafile", "shared/cluster"}},
	{path: "shared/sim/protocol", may: []string{"shared/cluster"}},
	{path: "shared/sim/ec2", may: []string{"shared/sim/kernel", "shared/sim/protocol", "shared/cluster"}},
	{path: "shared/sim/iam", may: []string{"shared/sim/kernel", "shared/sim/protocol", "shared/cluster"}},
	{path: "shared/sim/cloudwatch", may: []string{"shared/sim/kernel", "shared/sim/protocol", "shared/cluster"}},
	{path: "shared/sim/servicequotas", may: []string{"shared/sim/kernel", "shared/sim/protocol", "shared/sim/ec2",
		"shared/cluster"}},
	{path: "shared/sim/balancing", may: []string{"shared/sim/kernel", "shared/sim/protocol", "shared/cluster"}},
	{path: "shared/sim/ecs", may: []string{"shared/choice", "shared/sim/kernel", "shared/sim/ec2", "shared/constraint",
		"shared/wire/awsjson", "shared/wire/shape", "shared/cluster"}},
	{path: "shared/sim/autoscaling", may: []string{
		"shared/sim/kernel", "shared/sim/protocol", "shared/sim/ec2", "shared/sim/cloudwatch", "shared/cluster",
	}},
	{path: "shared/sim", may: []string{"shared/sim/...", "shared/wire/shape", "shared/wire/transport",
		"shared/awsevent", "shared/cluster", "tests/servicemodel"}},
	{path: "shared/porttest", may: []string{"shared/handler", "shared/awsevent", "shared/state", "shared/cluster"}},
	{path: "functions/...", may: []string{
		"shared/handler/...", "shared/decide", "shared/dynamo/...", "shared/awsapi/...", "shared/wire/...",
		"shared/console", "shared/awsevent", "shared/snapshot", "shared/state", "shared/cluster",
	}},
	{path: "cmd/berth/trace"},
	{path: "cmd/...", may: []string{
		"", "cmd/...", "shared/handler/...", "shared/operation", "shared/decide/...", "shared/observe",
		"shared/scaling", "shared/nodegroup", "shared/datafile", "shared/embedded", "shared/sim/...",
		"shared/dynamo/...",
		"shared/awsapi/...", "shared/wire/...",
		"shared/console", "shared/awsevent", "shared/snapshot", "shared/state", "shared/cluster",
		"shared/placement/...", "shared/constraint", "shared/choice", "shared/spelling", "shared/service",
		"shared/servicefabric",
	}},
	{path: "infra/...", may: []string{""}},
	{path: "tests/...", may: []string{"...", ""}},
	{path: ""},
}

var vagueNames = []string{
	"common", "util", "utils", "helper", "helpers", "models", "type", "types", "struct", "structs", "misc", "base",
	"lib",
}

// impureStandard are the packages of the standard library that a pure package must not import
// itself: a path, or all below it.
var impureStandard = []string{"net", "log", "math/rand", "crypto/rand", "os", "syscall", "io/ioutil", "unsafe"}

// pureExceptions lie below an impure path and only compute.
var pureExceptions = []string{"net/url", "net/netip", "net/textproto", "net/mail"}

// testsOnly are modules that nothing outside tests/ imports: a path and all below it.
var testsOnly = []string{"golang.org/x/tools"}

func matches(pattern, path string) bool {
	if dir, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(path+"/", dir)
	}
	return pattern == path
}

func anyMatches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

// local is the path within the module, the root being "".
func local(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// violations are all breaches of the rules, sorted.
func violations(g graph) []string {
	var found []string
	for path, p := range g {
		name, ok := local(path)
		if !ok {
			continue
		}
		if last := name[strings.LastIndexByte(name, '/')+1:]; slices.Contains(vagueNames, last) {
			found = append(found, fmt.Sprintf("%s: %q says nothing about what the package does", name, last))
		}
		i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.path, name) })
		if i < 0 {
			found = append(found, fmt.Sprintf("%s: no rule says what it may import: add it to rules", name))
			continue
		}
		found = append(found, rules[i].violations(g, name, p)...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (r rule) violations(g graph, name string, p pkg) []string {
	var found []string
	imports := p.Imports
	if r.pure {
		imports = slices.Concat(imports, p.TestImports, p.XTestImports)
	}
	if !strings.HasPrefix(name, "tests/") {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if under(testsOnly, path) {
				found = append(found, fmt.Sprintf("%s must not import %s: only tests/ may", name, path))
			}
		}
	}
	for _, path := range imports {
		if l, ok := local(path); ok && !matches(r.path, l) && !anyMatches(r.may, l) {
			found = append(found, fmt.Sprintf("%s must not import %s", name, path))
		}
	}
	if r.pure {
		for _, path := range p.Imports {
			if under(impureStandard, path) && !slices.Contains(pureExceptions, path) {
				found = append(found, fmt.Sprintf("%s is pure and must not import %s", name, path))
			}
		}
	}
	if r.pure || r.noAWS {
		if chain := g.chain(p.ImportPath, isAWS, map[string]bool{}); chain != nil {
			found = append(found, fmt.Sprintf("%s must not depend on AWS: %s", name, strings.Join(chain, " → ")))
		}
	}
	return found
}

func under(dirs []string, path string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return path == d || strings.HasPrefix(path, d+"/") })
}

func isAWS(path string) bool { return strings.HasPrefix(path, "github.com/aws/") }

// chain leads from a package to one that is bad; nil where none is reached.
func (g graph) chain(from string, bad func(string) bool, seen map[string]bool) []string {
	if seen[from] {
		return nil
	}
	seen[from] = true
	if bad(from) {
		return []string{from}
	}
	for _, next := range g[from].Imports {
		if rest := g.chain(next, bad, seen); rest != nil {
			return append([]string{from}, rest...)
		}
	}
	return nil
}

// load is the module as `go list` sees it; packages that do not compile at the moment are included.
func load(t *testing.T) graph {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,TestImports,XTestImports",
		"./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g
		} else if err != nil {
			t.Fatalf("reading go list's output: %v", err)
		}
		g[p.ImportPath] = p
	}
}

func TestImports(t *testing.T) {
	g := load(t)
	for _, path := range []string{"berth/shared/cluster", "berth/shared/handler", "berth/tests/house"} {
		if _, ok := g[path]; !ok {
			t.Errorf("%s was not looked at", path)
		}
	}
	for _, v := range violations(g) {
		t.Error(v)
	}
}

// The rules find what breaks them, one planted breach each.
func TestImportRulesBite(t *testing.T) {
	plain := graph{
		"fmt":                  {Standard: true},
		"berth/shared/cluster": {Imports: []string{"fmt"}},
	}
	for name, c := range map[string]struct {
		path string
		pkg  pkg
		want string
	}{
		"ServiceImportsPlacement": {"berth/shared/service", pkg{Imports: []string{"berth/shared/placement"}},
			"shared/service must not import berth/shared/placement"},
		"TestOfPureImportsMore": {"berth/shared/placement", pkg{XTestImports: []string{"berth/shared/service"}},
			"shared/placement must not import berth/shared/service"},
		"AdapterImportsHandler": {"berth/shared/dynamo", pkg{Imports: []string{"berth/shared/handler"}},
			"shared/dynamo must not import berth/shared/handler"},
		"FunctionImportsEmbedded": {"berth/functions/placement", pkg{Imports: []string{"berth/shared/embedded"}},
			"functions/placement must not import berth/shared/embedded"},
		"PureImportsNet": {"berth/shared/awsevent", pkg{Imports: []string{"net/http"}},
			"shared/awsevent is pure and must not import net/http"},
		"PureImportsRandom": {"berth/shared/placement", pkg{Imports: []string{"math/rand/v2"}},
			"shared/placement is pure and must not import math/rand/v2"},
		"HandlerReachesAWS": {"berth/shared/handler", pkg{Imports: []string{"example.com/x"}},
			"shared/handler must not depend on AWS: berth/shared/handler → example.com/x → github.com/aws/aws-sdk-go-v2/aws"},
		"UnknownPackage": {"berth/shared/engine", pkg{},
			"shared/engine: no rule says what it may import: add it to rules"},
		"OnlyTestsMay": {"berth/cmd/berth", pkg{TestImports: []string{"golang.org/x/tools/go/packages"}},
			"cmd/berth must not import golang.org/x/tools/go/packages: only tests/ may"},
		"VagueName": {"berth/tests/util", pkg{},
			`tests/util: "util" says nothing about what the package does`},
	} {
		t.Run(name, func(t *testing.T) {
			c.pkg.ImportPath = c.path
			g := graph{
				c.path:                             c.pkg,
				"example.com/x":                    {Imports: []string{"github.com/aws/aws-sdk-go-v2/aws"}},
				"github.com/aws/aws-sdk-go-v2/aws": {},
			}
			for path, p := range plain {
				p.ImportPath = path
				g[path] = p
			}
			if got := violations(g); !slices.Equal(got, []string{c.want}) {
				t.Errorf("got %q, want only %q", got, c.want)
			}
		})
	}
	t.Run("NothingWhereNothingIsWrong", func(t *testing.T) {
		g := graph{
			"berth/shared/placement": {ImportPath: "berth/shared/placement",
				Imports: []string{"net/url", "berth/shared/cluster"}},
			"berth/shared/dynamo": {ImportPath: "berth/shared/dynamo",
				TestImports: []string{"berth/shared/porttest"}},
			"berth": {ImportPath: "berth", Imports: []string{"embed"}},
			"berth/tests/house": {ImportPath: "berth/tests/house",
				Imports: []string{"golang.org/x/tools/go/packages"}},
		}
		if got := violations(g); len(got) > 0 {
			t.Errorf("got %q", got)
		}
	})
}
