package constraint

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// uri is an absolute URI (RFC 3986), in parts of the text that it was read from. Nothing in it is
// decoded. As in Service Fabric, it may contain blanks, but neither relative segments nor user
// information.
type uri struct {
	scheme, authority string // compared without regard to case
	path              string // with its leading slash, if it has one
	query, fragment   string
	hasAuthority      bool
}

// parseURI reads a whole text, without the blanks around it.
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
	n = spanOf(text, pathCharacters)
	u.path, text = text[:n], text[n:]
	if u.hasAuthority && u.path != "" && u.path[0] != '/' || !u.hasAuthority && strings.HasPrefix(u.path, "//") {
		return u, false
	}
	if rest, ok := strings.CutPrefix(text, "?"); ok {
		n = spanOf(rest, queryCharacters)
		u.query, text = rest[:n], rest[n:]
	}
	if rest, ok := strings.CutPrefix(text, "#"); ok {
		n = spanOf(rest, queryCharacters)
		u.fragment, text = rest[:n], rest[n:]
	}
	if text != "" || u.hasRelativeSegment() {
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
	if spanOf(host, hostCharacters) != len(host) {
		return "", "", false
	}
	return authority, rest, port == "" || port[0] == ':' && isPort(port[1:])
}

// isPort accepts a number up to 65535, with leading zeros, and an empty text: "http://host:" has
// the default port.
func isPort(text string) bool {
	text = strings.TrimLeft(text, "0")
	return isDigits(text) && (len(text) < 5 || len(text) == 5 && text <= "65535")
}

const blanks = " \t\r\n"

// charset is a set of ASCII characters.
type charset [utf8.RuneSelf]bool

// hostCharacters has letters, digits, and what needs no escape in a host. A path may have more, and
// blanks.
var (
	hostCharacters  = newCharset("")
	pathCharacters  = newCharset("/:@" + blanks)
	queryCharacters = newCharset("/?:@" + blanks)
)

// newCharset returns the unreserved characters and sub-delimiters of RFC 3986, braces, which
// Service Fabric accepts, and others.
func newCharset(others string) *charset {
	s := &charset{}
	for c := range byte(utf8.RuneSelf) {
		s[c] = isLetter(c) || isDigit(c) || strings.IndexByte("-._~!$&'()*+,;={}"+others, c) >= 0
	}
	return s
}

// spanOf counts the bytes at the beginning of a text that are in a set, letters beyond ASCII, or
// escapes.
func spanOf(text string, set *charset) int {
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

// letterAt counts the bytes of the letter at i; 0 if there is none. Beyond Latin-1, nearly
// everything counts as a letter.
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

// hasRelativeSegment reports whether a segment of the path is . or .. .
func (u *uri) hasRelativeSegment() bool {
	if !strings.Contains(u.path, ".") {
		return false
	}
	for path, more := u.pathSegments(), true; more; {
		var s string
		if s, path, more = strings.Cut(path, "/"); s == "." || s == ".." {
			return true
		}
	}
	return false
}

// pathSegments returns the path without its leading slash.
func (u *uri) pathSegments() string { return strings.TrimPrefix(u.path, "/") }

// equals compares all parts. Only scheme and authority are compared without regard to case.
func (u *uri) equals(o *uri) bool {
	return u.hasAuthority == o.hasAuthority && strings.EqualFold(u.scheme, o.scheme) &&
		strings.EqualFold(u.authority, o.authority) && u.path == o.path && u.query == o.query &&
		u.fragment == o.fragment
}

// isPrefixOf reports whether o begins with u, by whole segments of the path. A URI begins with
// itself.
func (u *uri) isPrefixOf(o *uri) bool {
	switch {
	case u.equals(o):
		return true
	case !strings.EqualFold(u.scheme, o.scheme):
		return false
	case !strings.EqualFold(u.authority, o.authority):
		return u.authority == "" && o.authority != ""
	case u.path == "" && o.path != "":
		return true
	}
	a, b := u.countSegments(), o.countSegments()
	if a > b {
		return false
	}
	rest, ok := strings.CutPrefix(o.pathSegments(), u.pathSegments())
	if !ok || a > 0 && rest != "" && rest[0] != '/' {
		return false
	}
	return a < b || u.fragment == "" && o.fragment != ""
}

// countSegments counts the segments of the path: "/a/" has two. "/" alone has none, unless there is
// an authority.
func (u *uri) countSegments() int {
	if u.pathSegments() == "" && !u.hasAuthority || u.path == "" {
		return 0
	}
	return strings.Count(u.pathSegments(), "/") + 1
}
