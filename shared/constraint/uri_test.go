package constraint

import "testing"

func TestParseURI(t *testing.T) {
	for text, want := range map[string]uri{
		"fd:/DC0/r":    {scheme: "fd", path: "/DC0/r"},
		" fd:/DC0\t":   {scheme: "fd", path: "/DC0"},
		"fd:":          {scheme: "fd"},
		"fd:/":         {scheme: "fd", path: "/"},
		"a+b-c.1:x/y":  {scheme: "a+b-c.1", path: "x/y"},
		"c:x y":        {scheme: "c", path: "x y"},
		"http://h":     {scheme: "http", authority: "h", hasAuthority: true},
		"http://h/":    {scheme: "http", authority: "h", hasAuthority: true},
		"http://h:80/": {scheme: "http", authority: "h:80", hasAuthority: true},
		"http://[::1]:8/a?b#c": {scheme: "http", authority: "[::1]:8", path: "/a", query: "b", fragment: "c",
			hasAuthority: true},
		"http://10.0.0.1:/":      {scheme: "http", authority: "10.0.0.1:", hasAuthority: true},
		"fabric:///a//b/?x=/?#/": {scheme: "fabric", path: "/a//b/", query: "x=/?", fragment: "/", hasAuthority: true},
		"fd:/%41/ä/東":            {scheme: "fd", path: "/%41/ä/東"},
		"größe:x":                {scheme: "größe", path: "x"},
	} {
		if got, ok := parseURI(text); !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", " ", ":", "a", "5", "10:30", "/DC0", "fd/DC0", "-a:b", "fd:/../x", "fd:/a/./b", "fd:.", "fd:x/..",
		"fd:/a|b", "fd:/<", `fd:\x`, "fd:/%4", "fd:/%zz",
		"http://u@h/", "http://h:x/", "http://h:65536/", "http://h:80:80/", "http://[::1/", "http://[x]/",
		"http://h h/", "http://[1.2.3.4]/", "http://[::1]x/",
		"fd:/a#b#c", "fd:/[x]", "a b:c", "fd:/\xff",
	} {
		if got, ok := parseURI(text); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestURIRelations(t *testing.T) {
	for _, c := range []struct {
		a, b          string
		equal, prefix bool
	}{
		{"fd:/a", "fd:/a", true, true}, {"fd:/a", "FD:/a", true, true}, {"fd:/a", "fd:/A", false, false},
		{"fd:/a", "fd:/a/b", false, true},
		{"fd:/a", "fd:/ab", false, false}, {"fd:/a/b", "fd:/a", false, false}, {"fd:/a/", "fd:/a/b", false, false},
		{"fd:/a", "fd:/a/", false, true},
		{"fd:/", "fd:/a", false, true}, {"fd:", "fd:/a", false, true}, {"fd:", "fd:", true, true},
		{"fd:a", "fd:a/b", false, true}, {"fd:a", "fd:/a", false, false},
		{"h://x", "h://X/a", false, true}, {"h://x/a", "h://y/a/b", false, false}, {"h:/a", "h://y/q", false, true},
		{"h://x", "h://x/", true, true},
		{"fd:/a", "fd:/a#f", false, true}, {"fd:/a#f", "fd:/a", false, false}, {"fd:/a#f", "fd:/a#g", false, false},
		{"fd:/a?q", "fd:/a", false, false},
		{"fd:/a?q", "fd:/a/b", false, true}, {"ud:/a", "fd:/a", false, false},
		{"fd:/a/b/c", "fd:/a/b/c/d/e", false, true},
	} {
		a, okA := parseURI(c.a)
		b, okB := parseURI(c.b)
		if !okA || !okB || a.equals(&b) != c.equal || b.equals(&a) != c.equal || a.isPrefixOf(&b) != c.prefix {
			t.Errorf("%s and %s: equal %v, prefix %v", c.a, c.b, a.equals(&b), a.isPrefixOf(&b))
		}
	}
}
