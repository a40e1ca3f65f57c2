package embedded

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// template is a SAM template that is being read. Errors are collected, so that the user sees all of
// them at once; readers return zero values and go on.
type template struct {
	parameters map[string]any    // string, float64 or []any, by name
	resources  map[string]string // type by logical id
	pseudo     map[string]string // CloudFormation's own parameters
	errs       []error
}

// section is one mapping of the template. Reading a key marks it. In the end rejectUnreadKeys
// reports the others, so that nothing that would matter is ignored.
type section struct {
	t    *template
	path string // such as Resources.Dispatch.Properties
	keys map[string]*yaml.Node
	read map[string]bool
}

// attribute is the value of !GetAtt, and of !Ref of a resource with an empty Name.
type attribute struct{ Resource, Name string }

func (t *template) addError(path, format string, args ...any) {
	t.errs = append(t.errs, fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...)))
}

func (t *template) joinedErrors() error { return errors.Join(t.errs...) }

// openSection opens a mapping. An absent node is an empty one. A mapping that a function of
// CloudFormation would compute is refused.
func (t *template) openSection(path string, n *yaml.Node) *section {
	s := &section{t: t, path: path, keys: map[string]*yaml.Node{}, read: map[string]bool{}}
	n = followAlias(n)
	switch {
	case n == nil:
	case n.Kind != yaml.MappingNode || shortIntrinsic(n) != "":
		t.addError(path, "must be a mapping written out, is %s", describeNode(n))
	default:
		for i := 0; i+1 < len(n.Content); i += 2 {
			s.keys[n.Content[i].Value] = n.Content[i+1]
		}
		if name := soleIntrinsic(n); name != "" {
			t.addError(path, "%s is not supported here", name)
			s.keys = map[string]*yaml.Node{}
		}
	}
	return s
}

// describeNode says in an error what was found instead.
func describeNode(n *yaml.Node) string {
	if name := shortIntrinsic(n); name != "" {
		return name
	}
	return map[yaml.Kind]string{yaml.SequenceNode: "a list", yaml.ScalarNode: "a value",
		yaml.MappingNode: "a mapping"}[n.Kind]
}

func (s *section) keyNames() []string { return slices.Sorted(maps.Keys(s.keys)) }

func (s *section) hasKey(key string) bool { return s.keys[key] != nil }

func (s *section) keyPath(key string) string { return s.path + "." + key }

func (s *section) childNode(key string) *yaml.Node {
	s.read[key] = true
	return s.keys[key]
}

func (s *section) childSection(key string) *section {
	return s.t.openSection(s.keyPath(key), s.childNode(key))
}

// rejectUnreadKeys reports every key that was not read and is not among others, which have nothing
// to do with wiring.
func (s *section) rejectUnreadKeys(others ...string) {
	for _, key := range s.keyNames() {
		if !s.read[key] && !slices.Contains(others, key) {
			s.t.addError(s.keyPath(key), "the embedded tier does not know this")
		}
	}
}

// resolvedValue returns the resolved value of a key, nil if it is absent or wrong.
func (s *section) resolvedValue(key string) any {
	n := s.childNode(key)
	if n == nil {
		return nil
	}
	v, err := s.t.resolveNode(n, s.keyPath(key))
	if err != nil {
		s.t.errs = append(s.t.errs, err)
		return nil
	}
	return v
}

// boundedNumber returns a whole number from least to most, or the fallback if the key is absent or
// wrong. A parameter's value may be text.
func (s *section) boundedNumber(key string, fallback, least, most int) int {
	if !s.hasKey(key) {
		return fallback
	}
	v := s.resolvedValue(key)
	if text, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			v = f
		}
	}
	f, ok := v.(float64)
	switch {
	case v == nil:
	case !ok || f != float64(int(f)):
		s.t.addError(s.keyPath(key), "must be a whole number, is %v", v)
	case int(f) < least || int(f) > most:
		s.t.addError(s.keyPath(key), "must be from %d to %d, is %v", least, most, v)
	default:
		return int(f)
	}
	return fallback
}

func (s *section) boolValue(key string) bool { return typedValue[bool](s, key, "true or false") }

func (s *section) textValue(key string) string { return typedValue[string](s, key, "text") }

// typedValue returns the value of a key, or the zero value if the key is absent or of another type.
func typedValue[T any](s *section, key, kind string) T {
	v := s.resolvedValue(key)
	typed, ok := v.(T)
	if !ok && v != nil {
		s.t.addError(s.keyPath(key), "must be %s, is %v", kind, v)
	}
	return typed
}

// resourceRef returns the logical id that the key's !GetAtt (or !Ref, for an empty attribute name)
// refers to. It is an error if that resource is not of the type.
func (s *section) resourceRef(key, name, kind string) string {
	v := s.resolvedValue(key)
	a, ok := v.(attribute)
	switch {
	case v == nil && s.hasKey(key):
	case !ok || a.Name != name:
		wanted := "!GetAtt of the " + name
		if name == "" {
			wanted = "!Ref"
		}
		s.t.addError(s.keyPath(key), "must be %s of a resource, is %v", wanted, v)
	case s.t.resources[a.Resource] != kind:
		s.t.addError(s.keyPath(key), "%s is not a resource of type %s in this template", a.Resource, kind)
	default:
		return a.Resource
	}
	return ""
}

// allowOnlyValue reports an error if the key is there and has another value: a setting that AWS
// obeys and the embedded tier would ignore.
func (s *section) allowOnlyValue(key string, allowed any) {
	if v := s.resolvedValue(key); v != nil && v != allowed {
		s.t.addError(s.keyPath(key), "must be %v, is %v", allowed, v)
	}
}

// listNodes returns the items of a list. listItemPath has their paths.
func (s *section) listNodes(key string) []*yaml.Node {
	n := followAlias(s.childNode(key))
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode || shortIntrinsic(n) != "" {
		s.t.addError(s.keyPath(key), "must be a list written out, is %s", describeNode(n))
		return nil
	}
	return n.Content
}

func (s *section) listItemPath(key string, i int) string {
	return s.keyPath(key) + "[" + strconv.Itoa(i) + "]"
}

func secondsToDuration(n int) time.Duration { return time.Duration(n) * time.Second }
