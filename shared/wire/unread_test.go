package wire_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/shared/wire"
	"berth/shared/wire/ecsapi"
	"berth/tests/servicemodel"
)

// A memberWalk visits the members of an operation's input, however deep, by botocore's model.
type memberWalk struct {
	model *servicemodel.Model
	// visit gets a member's shape and its path, and how a value is wrapped into a body.
	visit func(shape servicemodel.Shape, path string, body func(value string) string)
}

// structure visits the members of a structure. open are the structures that it is in, because some
// contain themselves.
func (w memberWalk) structure(name, path string, body func(string) string, open []string) {
	if slices.Contains(open, name) {
		return
	}
	for _, member := range slices.Sorted(maps.Keys(w.model.Shapes[name].Members)) {
		inside := func(value string) string { return body(`{"` + member + `":` + value + `}`) }
		at := strings.TrimPrefix(path+"."+member, ".")
		w.value(w.model.Shapes[name].Members[member].Shape, at, inside, append(slices.Clone(open), name))
	}
}

func (w memberWalk) value(name, path string, body func(string) string, open []string) {
	shape := w.model.Shapes[name]
	w.visit(shape, path, body)
	switch shape.Type {
	case "structure":
		w.structure(name, path, body, open)
	case "list":
		w.value(shape.Member.Shape, path, func(value string) string { return body("[" + value + "]") }, open)
	}
}

// wrongValues are values that no member of a type has.
var wrongValues = map[string][]string{
	"string": {"7", "true", "[]", "{}"}, "integer": {`"7"`, "true", "[]", "{}", "1.5"}, "long": {`"7"`, "true", "[]"},
	"double": {`"7"`, "true", "[]"}, "boolean": {`"true"`, "1", "[]"}, "list": {`"a"`, "7", "true", "{}"},
	"structure": {`"a"`, "7", "true", "[]"}, "map": {`"a"`, "7", "[]"}, "timestamp": {`"noon"`, "true", "[]"},
}

// A value that is not of its member's type is refused where it is read, in each operation and at any
// depth.
func TestWrongTypesAreRefused(t *testing.T) {
	m := models(t)
	if m == nil {
		t.Skip(servicemodel.ErrNotFetched)
	}
	b := newBerth(t)
	sent := 0
	for op, o := range m.ECS.Operations {
		if ecsapi.RefusedOperations()[op] != "" {
			continue
		}
		walk := memberWalk{m.ECS, func(s servicemodel.Shape, path string, body func(string) string) {
			for _, wrong := range wrongValues[s.Type] {
				sent++
				// The model may have members that the SDK does not know yet.
				_, code, message := b.answered(t, op, body(wrong))
				if code != serialization && !strings.Contains(message, "this version of Berth does not know it") {
					t.Errorf("%s with %s as %s: %s %s", op, path, wrong, code, message)
				}
			}
			if len(wrongValues[s.Type]) == 0 {
				t.Errorf("%s.%s is a %s", op, path, s.Type)
			}
		}}
		walk.structure(o.Input.Shape, "", func(value string) string { return value }, nil)
	}
	if sent < 1000 {
		t.Errorf("only %d requests were sent", sent)
	}
}

// ECS's words name both types.
func TestWordsOfWrongTypes(t *testing.T) {
	b := newBerth(t)
	for _, c := range []struct{ op, body, want string }{
		{"CreateService", `{"desiredCount":"1"}`, "STRING_VALUE cannot be converted to Integer: desiredCount"},
		{"CreateService", `{"serviceName":1}`, "NUMBER_VALUE cannot be converted to String: serviceName"},
		{"CreateService", `{"serviceName":true}`, "TRUE_VALUE cannot be converted to String: serviceName"},
		{"CreateService", `{"serviceName":false}`, "FALSE_VALUE cannot be converted to String: serviceName"},
		{"CreateService", `{"enableExecuteCommand":"true"}`,
			"STRING_VALUE cannot be converted to Boolean: enableExecuteCommand"},
	} {
		if _, code, message := b.answered(t, c.op, c.body); code != serialization || message != c.want {
			t.Errorf("%s %s: %s %s, want %q", c.op, c.body, code, message, c.want)
		}
	}
}

// forwarding is an ECS that records the body it received.
type forwarding struct{ body string }

func (f *forwarding) Forward(_ context.Context, _ string, body []byte) (int, []byte, error) {
	f.body = string(body)
	return 400, []byte(`{"__type":"ClientException","message":"no"}`), nil
}

// A member that the SDK does not know is never dropped: an operation of Berth's refuses it at any
// depth, and one of ECS's passes it on.
func TestUnknownMembers(t *testing.T) {
	newer := func(t *testing.T, op, body, member string) {
		t.Helper()
		b := newBerth(t)
		b.create(t)
		_, code, message := b.answered(t, op, body)
		want := member + " is not supported: this version of Berth does not know it"
		if code != notSupported || !strings.HasPrefix(message, want) {
			t.Errorf("%s %s: %s %s, want %q", op, body, code, message, want)
		}
	}
	newer(t, "CreateService", `{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"quantum":true}`, "quantum")
	newer(t, "UpdateService", `{"service":"web","cluster":"prod","deploymentConfiguration":{"quantum":{}}}`,
		"deploymentConfiguration.quantum")
	newer(t, "RunTask", `{"taskDefinition":"shop","overrides":{"containerOverrides":[{"name":"app","quantum":[]}]}}`,
		"overrides.containerOverrides.quantum")
	newer(t, "CreateCluster", `{"capacityProviders":["FARGATE"],"defaultCapacityProviderStrategy":`+
		`[{"capacityProvider":"FARGATE","weight":1,"quantum":1}]}`, "defaultCapacityProviderStrategy.quantum")
	for op, body := range map[string]string{
		"RegisterTaskDefinition": `{"family":"f","quantum":1,"containerDefinitions":[{"name":"a","quantum":2}]}`,
		"CreateCluster":          `{"clusterName":"prod","quantum":{"a":1}}`,
	} {
		ecs := &forwarding{}
		b := newBerth(t, func(o *wire.ServerOptions) { o.ECS = ecs })
		b.answered(t, op, body)
		if strings.Count(ecs.body, "quantum") != strings.Count(body, "quantum") {
			t.Errorf("%s %s: ECS got %s", op, body, ecs.body)
		}
	}
}
