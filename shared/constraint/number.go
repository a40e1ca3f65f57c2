package constraint

import (
	"math"
	"strconv"
	"strings"
)

// parseDouble reads a whole text like C's wcstod in the C locale, which Service Fabric uses (P7):
// optional blanks and a sign, then decimal or hexadecimal digits with a fraction and an exponent,
// or inf, infinity or nan. A number out of range is infinite or 0. An empty text is 0, because a
// caller that only checks where wcstod stopped takes it for a number.
func parseDouble(text string) (float64, bool) {
	if text == "" {
		return 0, true
	}
	rest := strings.TrimLeft(text, " \t\n\v\f\r")
	unsigned := rest
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		unsigned = rest[1:]
	}
	switch {
	case unsigned == "":
		return 0, false
	case unsigned[0]|0x20 == 'i' && isInfinity(unsigned):
		if rest[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	case unsigned[0]|0x20 == 'n' && isNaN(unsigned):
		return math.NaN(), true
	case isDecimal(unsigned):
		return parseInAnyRange(rest)
	}
	exponent, ok := isHexadecimal(unsigned)
	if !ok {
		return 0, false
	}
	if !exponent {
		rest += "p0" // Go requires it, C does not
	}
	return parseInAnyRange(rest)
}

// parseInAnyRange parses what is known to be a number, in range or not.
func parseInAnyRange(text string) (float64, bool) {
	f, _ := strconv.ParseFloat(text, 64)
	return f, true
}

// isInfinity accepts inf and infinity in any case.
func isInfinity(text string) bool {
	return strings.EqualFold(text, "inf") || strings.EqualFold(text, "infinity")
}

// isNaN accepts nan and nan(CHARS), of letters, digits and underscores.
func isNaN(text string) bool {
	if len(text) < 3 || !strings.EqualFold(text[:3], "nan") {
		return false
	}
	if text = text[3:]; text == "" {
		return true
	}
	if text[0] != '(' || text[len(text)-1] != ')' || len(text) < 2 {
		return false
	}
	for i := 1; i < len(text)-1; i++ {
		if c := text[i]; !isLetter(c) && !isDigit(c) && c != '_' {
			return false
		}
	}
	return true
}

// isDecimal accepts decimal digits with a fraction and an exponent: 12, .5, 1., 1.5e-3.
func isDecimal(text string) bool {
	rest, ok := cutMantissa(text, isDigit)
	if !ok || rest == "" {
		return ok
	}
	return (rest[0] == 'e' || rest[0] == 'E') && isExponent(rest[1:])
}

// isHexadecimal reports whether a text is a hexadecimal number, and whether it has an exponent.
func isHexadecimal(text string) (exponent, ok bool) {
	if len(text) < 2 || text[0] != '0' || text[1] != 'x' && text[1] != 'X' {
		return false, false
	}
	rest, ok := cutMantissa(text[2:], isHexDigit)
	if !ok || rest == "" {
		return false, ok
	}
	return true, (rest[0] == 'p' || rest[0] == 'P') && isExponent(rest[1:])
}

// isHexDigit reports whether c is a hexadecimal digit, in either case.
func isHexDigit(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// cutMantissa cuts digits with at most one dot among them. It fails without a digit.
func cutMantissa(text string, digit func(byte) bool) (rest string, ok bool) {
	digits, dot := 0, false
	for i := range len(text) {
		switch c := text[i]; {
		case digit(c):
			digits++
		case c == '.' && !dot:
			dot = true
		default:
			return text[i:], digits > 0
		}
	}
	return "", digits > 0
}

// isExponent accepts what may follow e or p: digits with an optional sign.
func isExponent(text string) bool {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	return text != "" && isDigits(text)
}
