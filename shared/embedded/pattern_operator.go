package embedded

import (
	"fmt"
	"slices"
	"strings"
)

// compileTest compiles one alternative of a field: a value, or an object with one operator.
func compileTest(doc any, path string) (test, error) {
	m, ok := doc.(map[string]any)
	if !ok {
		return compileExact(doc, path)
	}
	if len(m) != 1 {
		return nil, fmt.Errorf("%s: must have exactly one operator", path)
	}
	for operator, operand := range m {
		path += "." + operator
		switch operator {
		case "prefix", "suffix":
			return compileAffix(operator, []any{operand}, path)
		case "anything-but":
			return compileAnythingBut(operand, path)
		case "exists":
			return compileExists(operand, path)
		case "numeric":
			return compileNumeric(operand, path)
		}
	}
	return nil, fmt.Errorf("%s: this operator is not supported", path)
}

// compileExact compares values as JSON decodes them: 1 and 1.0 are equal, 1 and "1" are not.
func compileExact(doc any, path string) (test, error) {
	want, ok := scalarValue(doc)
	if !ok {
		return nil, fmt.Errorf("%s: must be a string, a number, true, false, null or an operator", path)
	}
	return func(v any) bool { return v == want }, nil
}

// scalarValue returns the value as JSON decodes it, and false for objects and lists. YAML has
// integers where JSON has only floats.
func scalarValue(doc any) (any, bool) {
	switch v := doc.(type) {
	case nil, string, bool, float64:
		return v, true
	case int:
		return float64(v), true
	}
	return nil, false
}

// compileAffix compiles a prefix or a suffix, or several of which one must fit. The empty string is
// refused, because it fits everything.
func compileAffix(operator string, operands []any, path string) (test, error) {
	var wanted []string
	for _, item := range operands {
		s, ok := item.(string)
		if !ok || s == "" {
			return nil, fmt.Errorf("%s: must be a string that is not empty", path)
		}
		wanted = append(wanted, s)
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("%s: must name at least one string", path)
	}
	fits := strings.HasPrefix
	if operator == "suffix" {
		fits = strings.HasSuffix
	}
	return func(v any) bool {
		s, ok := v.(string)
		return ok && slices.ContainsFunc(wanted, func(w string) bool { return fits(s, w) })
	}, nil
}

// compileAnythingBut compiles the opposite of values, prefixes or suffixes. It holds only for a
// field that is there.
func compileAnythingBut(operand any, path string) (test, error) {
	but, err := compileExcluded(operand, path)
	if err != nil {
		return nil, err
	}
	return func(v any) bool { return v != absent{} && !but(v) }, nil
}

// compileExcluded compiles what anything-but excludes. Its result holds for the excluded values.
func compileExcluded(operand any, path string) (test, error) {
	switch x := operand.(type) {
	case map[string]any:
		return compileExcludedAffix(x, path)
	case []any:
		return compileExcludedValues(x, path)
	}
	return compileExcludedValues([]any{operand}, path)
}

func compileExcludedAffix(m map[string]any, path string) (test, error) {
	for operator, operand := range m {
		if len(m) != 1 || operator != "prefix" && operator != "suffix" {
			return nil, fmt.Errorf("%s.%s: this operator is not supported", path, operator)
		}
		list, ok := operand.([]any)
		if !ok {
			list = []any{operand}
		}
		return compileAffix(operator, list, path+"."+operator)
	}
	return nil, fmt.Errorf("%s: must name at least one value", path)
}

// compileExcludedValues excludes any of the values. null cannot be excluded.
func compileExcludedValues(list []any, path string) (test, error) {
	var excluded []any
	for _, item := range list {
		want, ok := scalarValue(item)
		if !ok || want == nil {
			return nil, fmt.Errorf("%s: must be strings, numbers, true or false", path)
		}
		excluded = append(excluded, want)
	}
	if len(excluded) == 0 {
		return nil, fmt.Errorf("%s: must name at least one value", path)
	}
	return func(v any) bool { return slices.Contains(excluded, v) }, nil
}

// compileExists compiles {"exists": true} or false. A field that is null exists.
func compileExists(operand any, path string) (test, error) {
	want, ok := operand.(bool)
	if !ok {
		return nil, fmt.Errorf("%s: must be true or false", path)
	}
	return func(v any) bool { return (v != absent{}) == want }, nil
}

// compileNumeric compiles one or two comparisons, of which all must hold: [">", 0, "<=", 5].
func compileNumeric(operand any, path string) (test, error) {
	list, _ := operand.([]any)
	if len(list) != 2 && len(list) != 4 {
		return nil, fmt.Errorf("%s: must be one or two pairs of comparison and number", path)
	}
	var all []func(n float64) bool
	for i := 0; i < len(list); i += 2 {
		operator, _ := list[i].(string)
		bound, _ := scalarValue(list[i+1])
		limit, ok := bound.(float64)
		compare := comparisons[operator]
		if compare == nil || !ok {
			return nil, fmt.Errorf("%s[%d]: must be one of = < <= > >= and a number", path, i)
		}
		all = append(all, func(n float64) bool { return compare(n, limit) })
	}
	return func(v any) bool {
		n, ok := v.(float64)
		return ok && !slices.ContainsFunc(all, func(holds func(float64) bool) bool { return !holds(n) })
	}, nil
}

var comparisons = map[string]func(a, b float64) bool{
	"=":  func(a, b float64) bool { return a == b },
	"<":  func(a, b float64) bool { return a < b },
	"<=": func(a, b float64) bool { return a <= b },
	">":  func(a, b float64) bool { return a > b },
	">=": func(a, b float64) bool { return a >= b },
}
