package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	markdownLink = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// markdownFiles are the documents of the repository, by path from its root.
func markdownFiles(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "tests/*/*/README.md", "cmd/berth/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			page, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, filepath.ToSlash(page))
		}
	}
	return pages
}

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func hasAnchor(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if anchorOf(m[1]) == anchor {
			return true
		}
	}
	return false
}

// Every link from one document to a file, or to a heading of a document, leads somewhere.
func TestLinks(t *testing.T) {
	pages := markdownFiles(t)
	if len(pages) < 10 {
		t.Errorf("only %d documents were found", len(pages))
	}
	for _, page := range pages {
		for _, m := range markdownLink.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
				continue
			}
			if anchor != "" && strings.HasSuffix(file, ".md") && !hasAnchor(read(t, file), anchor) {
				t.Errorf("%s links to %s, but %s has no heading for %q", page, m[1], file, anchor)
			}
		}
	}
}

// Every decision is in the list of decisions.
func TestDecisionsAreListed(t *testing.T) {
	list := read(t, "docs/decisions/README.md")
	for _, page := range markdownFiles(t) {
		if name := path.Base(page); path.Dir(page) == "docs/decisions" && name != "README.md" && !strings.Contains(list, "("+name+")") {
			t.Errorf("docs/decisions/README.md does not list %s", name)
		}
	}
}
