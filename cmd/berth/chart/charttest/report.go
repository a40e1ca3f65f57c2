package charttest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// Elements and attributes with which a page would load or run something else.
var (
	loading = []string{"a", "base", "embed", "form", "iframe", "image", "img", "link", "object", "script", "use"}
	sources = []string{"action", "background", "data", "href", "poster", "src", "srcset"}
)

// CheckReport checks that a page is well-formed, loads nothing from elsewhere, has a figure that
// package chart drew, and ends with what the command printed.
func CheckReport(t *testing.T, page []byte, printed string) {
	t.Helper()
	if !bytes.HasPrefix(page, []byte("<!doctype html>\n")) || bytes.Count(page, []byte(`<figure class="chart">`)) == 0 {
		t.Errorf("no page with a figure:\n%s", page)
	}
	d := xml.NewDecoder(bytes.NewReader(page))
	var open []string
	texts := map[string]*strings.Builder{"pre": {}, "style": {}}
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			checkElement(t, token)
			if token.Name.Local != "meta" { // it has no end
				open = append(open, token.Name.Local)
			}
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != token.Name.Local {
				t.Fatalf("</%s> ends one of %q", token.Name.Local, open)
			}
			open = open[:len(open)-1]
		case xml.CharData:
			for element, text := range texts {
				if slices.Contains(open, element) {
					text.Write(append(token, '\n'))
				}
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("%q have no end", open)
	}
	if style := texts["style"].String(); strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		t.Errorf("the style loads something:\n%s", style)
	}
	if got := texts["pre"].String(); strings.TrimSpace(got) != strings.TrimSpace(printed) {
		t.Errorf("the page says\n%s\nbut the command printed\n%s", got, printed)
	}
}

// checkElement refuses what loads or runs something.
func checkElement(t *testing.T, e xml.StartElement) {
	t.Helper()
	if slices.Contains(loading, e.Name.Local) {
		t.Errorf("the page has an element %s", e.Name.Local)
	}
	for _, a := range e.Attr {
		if slices.Contains(sources, a.Name.Local) || strings.HasPrefix(a.Name.Local, "on") ||
			strings.Contains(a.Value, "url(") {
			t.Errorf("%s=%q of %s loads or runs something", a.Name.Local, a.Value, e.Name.Local)
		}
	}
}
