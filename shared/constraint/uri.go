package constraint

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// uri is an absolute URI (RFC 3986), in parts of the text it was read from. Nothing in it is
// decoded; as Service Fabric has it, blanks may stand within it, and neither relative segments nor
// user information.
type uri struct {
	scheme, authority string // compared without regard to case
	path              string // with its leading slash, where it has one
	query, fragment   string
	hasAuthority      bool
}

// parseURI reads a whole text, blanks around it aside.
func parseURI(text string) (uri, bool) {
	text = strings.Trim(text, " \t\r\n")
	var u uri
	n := 0
	for n < len(text) && (letterAt(text, n) > 0 || n > 0 &&
		(isDigit(text[n]) || strings.IndexByte("+-.", text[n]) >= 0)) {
		n += max(letterAt(text, n), 1)
	}
	if n == 0 || n == len(text) || text[n] != ':' {
		return u, false
	}
	u.scheme, text = text[:n], text[n+1:]
	if rest, ok := strings.CutPrefix(text, "//"); ok {
		u.hasAuthority = true
		if u.authority, text, ok = cutAuthority(rest); !ok {
			return u, false
		}
	}
	n = span(text, pathCharacters)
	u.path, text = text[:n], text[n:]
	if u.hasAuthority && u.path != "" && u.path[0] != '/' || !u.hasAuthority && strings.HasPrefix(u.path, "//") {
		return u, false
	}
	if rest, ok := strings.CutPrefix(text, "?"); ok {
		n = span(rest, queryCharacters)
		u.query, text = rest[:n], rest[n:]
	}
	if rest, ok := strings.CutPrefix(text, "#"); ok {
		n = span(rest, queryCharacters)
		u.fragment, text = rest[:n], rest[n:]
	}
	if text != "" || u.relative() {
		return u, false
	}
	if u.hasAuthority && u.path == "/" {
		u.path = ""
	}
	return u, true
}

// cutAuthority cuts host and port from the beginning of what follows "//".
func cutAuthority(text string) (authority, rest string, ok bool) {
	n := strings.IndexAny(text, "/?#")
	if n < 0 {
		n = len(text)
	}
	authority, rest = text[:n], text[n:]
	host, port := authority, ""
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return "", "", false
		}
		ip, err := netip.ParseAddr(host[1:end])
		if err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", "", false
		}
		if host[end+1:] == "" {
			return authority, rest, true
		}
		host, port = "", host[end+1:]
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		host, port = host[:i], host[i:]
	}
	if span(host, hostCharacters) != len(host) {
		return "", "", false
	}
	return authority, rest, port == "" || port[0] == ':' && isPort(port[1:])
}

func isPort(text string) bool {
	text = strings.TrimLeft(text, "0")
	return isDigits(text) && (len(text) < 5 || len(text) == 5 && text <= "65535")
}

const blanks = " \t\r\n"

// charset says of each ASCII character whether it is in a set.
type charset [utf8.RuneSelf]bool

// hostCharacters are letters, digits, and what needs no escape in a host; within a path there may
// be more, and blanks.
var (
	hostCharacters  = newCharset("")
	pathCharacters  = newCharset("/:@" + blanks)
	queryCharacters = newCharset("/?:@" + blanks)
)

func newCharset(others string) *charset {
	s := &charset{}
	for c := range byte(utf8.RuneSelf) {
		s[c] = isLetter(c) || isDigit(c) || strings.IndexByte("-._~!$&'()*+,;={}"+others, c) >= 0
	}
	return s
}

// span is how many bytes at the beginning of a text are in a set, letters beyond ASCII, or escapes.
func span(text string, set *charset) int {
	i := 0
	for i < len(text) {
		c := text[i]
		switch {
		case c >= utf8.RuneSelf:
			n := letterAt(text, i)
			if n == 0 {
				return i
			}
			i += n
		case set[c]:
			i++
		case c == '%' && i+2 < len(text) && isHexDigit(text[i+1]) && isHexDigit(text[i+2]):
			i += 3
		default:
			return i
		}
	}
	return i
}

// letterAt is how many bytes of a text at i are a letter, 0 where there is none. Beyond Latin-1
// nearly all counts as one.
func letterAt(text string, i int) int {
	if c := text[i]; c < utf8.RuneSelf {
		if isLetter(c) {
			return 1
		}
		return 0
	}
	switch r, n := utf8.DecodeRuneInString(text[i:]); {
	case r == utf8.RuneError && n == 1:
		return 0
	case r >= 0xff && r < 0xd800, r >= 0x10000, r >= 0xfe20 && r <= 0xfe2f, unicode.IsLetter(r):
		return n
	}
	return 0
}

// relative reports whether a segment of the path is . or .. .
func (u *uri) relative() bool {
	if !strings.Contains(u.path, ".") {
		return false
	}
	for path, more := u.segments(), true; more; {
		var s string
		if s, path, more = strings.Cut(path, "/"); s == "." || s == ".." {
			return true
		}
	}
	return false
}

// segments is the path without its leading slash.
func (u *uri) segments() string { return strings.TrimPrefix(u.path, "/") }

// equal compares all parts.
func (u *uri) equal(o *uri) bool {
	return u.hasAuthority == o.hasAuthority && strings.EqualFold(u.scheme, o.scheme) &&
		strings.EqualFold(u.authority, o.authority) && u.path == o.path && u.query == o.query &&
		u.fragment == o.fragment
}

// prefixOf reports whether o begins with u, by whole segments of the path; a URI begins with
// itself.
func (u *uri) prefixOf(o *uri) bool {
	switch {
	case u.equal(o):
		return true
	case !strings.EqualFold(u.scheme, o.scheme):
		return false
	case !strings.EqualFold(u.authority, o.authority):
		return u.authority == "" && o.authority != ""
	case u.path == "" && o.path != "":
		return true
	}
	a, b := u.count(), o.count()
	if a > b {
		return false
	}
	rest, ok := strings.CutPrefix(o.segments(), u.segments())
	if !ok || a > 0 && rest != "" && rest[0] != '/' {
		return false
	}
	return a < b || u.fragment == "" && o.fragment != ""
}

// count is the number of segments of the path: "/" has none, "/a/" has two.
func (u *uri) count() int {
	if u.segments() == "" && !u.hasAuthority || u.path == "" {
		return 0
	}
	return strings.Count(u.segments(), "/") + 1
}
