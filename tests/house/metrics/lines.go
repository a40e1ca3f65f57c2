package metrics

import (
	"bytes"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// tabWidth is how many columns a tab takes.
const tabWidth = 4

// Lines counts the lines of some code by what is on them. Blank lines count as neither.
type Lines struct {
	Name     string `json:"name,omitempty"`
	Files    int    `json:"files"`
	Code     int    `json:"code"`     // lines with code on them, a comment after it or not
	Comments int    `json:"comments"` // lines with nothing but a comment
}

// CommentShare is the part of the lines, blank ones apart, that hold only comments.
func (l Lines) CommentShare() float64 { return share(l.Comments, l.Code+l.Comments) }

func (l Lines) plus(m Lines) Lines {
	l.Files, l.Code, l.Comments = l.Files+m.Files, l.Code+m.Code, l.Comments+m.Comments
	return l
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

type lineKind byte

const (
	blankLine lineKind = iota
	commentLine
	codeLine
)

// lineKinds tells of each line of a source what is on it. A blank line inside a raw string or a comment stays blank.
func lineKinds(source []byte) []lineKind {
	text := bytes.Split(source, []byte("\n"))
	kinds := make([]lineKind, len(text))
	set := token.NewFileSet()
	in := set.AddFile("", set.Base(), len(source))
	var s scanner.Scanner
	s.Init(in, source, nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return kinds
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		kind := codeLine
		if tok == token.COMMENT {
			kind = commentLine
		}
		first := in.Line(pos) - 1
		for n := first; n <= first+strings.Count(literal, "\n"); n++ {
			if len(bytes.TrimSpace(text[n])) > 0 {
				kinds[n] = max(kinds[n], kind)
			}
		}
	}
}

// CountLines counts the lines of one source.
func CountLines(source []byte) Lines {
	l := Lines{Files: 1}
	for _, kind := range lineKinds(source) {
		switch kind {
		case codeLine:
			l.Code++
		case commentLine:
			l.Comments++
		}
	}
	return l
}

// width is how many columns a line takes.
func width(line []byte) int {
	tabs := bytes.Count(line, []byte("\t"))
	return utf8.RuneCount(line) + tabs*(tabWidth-1)
}

// wideLines are the lines of a kind that take more columns than most, with what they take.
func wideLines(f file, kind lineKind, most int) []Item {
	var out []Item
	text := bytes.Split(f.source, []byte("\n"))
	for n, k := range lineKinds(f.source) {
		if w := width(text[n]); k == kind && w > most {
			out = append(out, Item{Name: f.path, Line: n + 1, N: w})
		}
	}
	return out
}
