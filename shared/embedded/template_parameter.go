package embedded

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// readParameters reads each parameter's value, the one given or its default, and returns all as
// text. It refuses a value for a parameter that the template does not have, and one that the
// template does not allow, as a deployment would.
func (t *template) readParameters(all *section, given map[string]string) map[string]string {
	texts := map[string]string{}
	for _, name := range all.keyNames() {
		s := all.childSection(name)
		text, ok := given[name]
		if !ok {
			if !s.hasKey("Default") {
				t.addError(s.path, "has no default, and no value was given")
				continue
			}
			text = fmt.Sprint(s.resolvedValue("Default"))
		}
		texts[name] = text
		t.parameters[name] = s.parameterValue(text)
	}
	for name := range given {
		if !all.hasKey(name) {
			t.addError(all.keyPath(name), "the template has no such parameter")
		}
	}
	return texts
}

// parameterValue returns the value in the type of the parameter: a string, a float64 or a list of
// strings.
func (s *section) parameterValue(text string) any {
	if allowed, ok := s.resolvedValue("AllowedValues").([]any); ok {
		if !slices.ContainsFunc(allowed, func(v any) bool { return fmt.Sprint(v) == text }) {
			s.t.addError(s.path, "must be one of %v, is %q", allowed, text)
		}
	}
	switch kind := s.textValue("Type"); kind {
	case "String":
		return text
	case "Number":
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.t.addError(s.path, "must be a number, is %q", text)
		}
		s.checkParameterRange(f)
		return f
	case "CommaDelimitedList":
		list := []any{}
		for _, item := range strings.Split(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		return list
	default:
		s.t.addError(s.keyPath("Type"), "the embedded tier does not know the type %q", kind)
	}
	return nil
}

// checkParameterRange reports a number outside of MinValue and MaxValue.
func (s *section) checkParameterRange(f float64) {
	if least, ok := s.resolvedValue("MinValue").(float64); ok && f < least {
		s.t.addError(s.path, "must be at least %g, is %g", least, f)
	}
	if most, ok := s.resolvedValue("MaxValue").(float64); ok && f > most {
		s.t.addError(s.path, "must be at most %g, is %g", most, f)
	}
}
