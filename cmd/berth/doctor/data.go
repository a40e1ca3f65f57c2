package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"berth/shared/datafile"
)

// Folder is what was read of a data folder. Nil errors mean that nothing is wrong.
type Folder struct {
	Path  string
	Files []FolderFile
	// Pair says that the files do not belong together, Content that this version does not read
	// them. Both are unknown, and nil, if a file is not whole.
	Pair, Content error
}

// FolderFile is a file of a data folder, with what keeps it from being read whole.
type FolderFile struct {
	Name string
	Size int64
	Err  error
}

// IsWhole reports whether every file can be read.
func (s *Folder) IsWhole() bool {
	return !slices.ContainsFunc(s.Files, func(f FolderFile) bool { return f.Err != nil })
}

// ExamineFolder judges a data folder of `berth up`.
func ExamineFolder(s *Folder, now time.Time) *Report {
	r := &Report{Data: s.Path, At: now.UTC().Truncate(time.Second), Verdict: OK}
	r.add("files", checkFiles(s))
	r.add("pair", checkPair(s))
	r.add("contents", checkContents(s))
	return r
}

// restoreHelp says how to get a data folder back.
const restoreHelp = "Restore both files from a backup into a new folder, or begin anew in another one"

func restoreCommand(path string) string { return "berth restore BACKUP --data " + path + "-restored" }

// checkFiles judges whether each file is there and can be read from its beginning to its end.
func checkFiles(s *Folder) Check {
	var found []Finding
	looked := ""
	for n, f := range s.Files {
		if n > 0 {
			looked += ", "
		}
		looked += fmt.Sprintf("%s (%d bytes)", f.Name, f.Size)
		switch {
		case f.Err == nil:
		case errors.Is(f.Err, datafile.ErrInUse):
			found = append(found, Finding{Verdict: Unknown, Thing: f.Name, Value: "not checked: a process has it open",
				Remedy: "Stop that Berth; or write a backup, restore it to a folder, and check that one",
				Command: "berth backup backup.tar && berth restore backup.tar --data " + s.Path + "-copy && " +
					"berth doctor --data " + s.Path + "-copy"})
		case errors.Is(f.Err, os.ErrNotExist):
			found = append(found, Finding{Verdict: Fail, Thing: f.Name, Value: "it does not exist",
				Expected: "both files of a data folder", Remedy: restoreHelp, Command: restoreCommand(s.Path)})
		case errors.Is(f.Err, os.ErrPermission):
			found = append(found, notChecked(f.Name, f.Err))
		default:
			found = append(found, Finding{Verdict: Fail, Thing: f.Name, Value: f.Err.Error(), Expected: "a whole file",
				Remedy: restoreHelp, Command: restoreCommand(s.Path)})
		}
	}
	return newCheck("", looked, found...)
}

// errNotWhole is why the contents of a damaged or open file are not checked.
var errNotWhole = errors.New("the files must be whole and closed first")

// checkPair judges whether both files come from one folder.
func checkPair(s *Folder) Check {
	const looked = "whether both files belong together"
	switch {
	case !s.IsWhole():
		return newCheck("", looked, notChecked("the files", errNotWhole))
	case s.Pair != nil:
		return newCheck("", looked, Finding{Verdict: Fail, Thing: "the files", Value: s.Pair.Error(),
			Expected: "two files of one folder", Remedy: restoreHelp, Command: restoreCommand(s.Path)})
	}
	return newCheck("", looked)
}

// checkContents judges whether this version reads every row, of Berth and of the simulated AWS.
func checkContents(s *Folder) Check {
	const looked = "formats and rows, read by this version on a copy"
	switch {
	case !s.IsWhole() || s.Pair != nil:
		return newCheck("", looked, notChecked("the rows", errNotWhole))
	case s.Content != nil:
		return newCheck("", looked, Finding{Verdict: Fail, Thing: "the rows", Value: s.Content.Error(),
			Expected: "formats and rows that this version knows, of this account and Region",
			Remedy: "If the account or the Region differ, give --account and --region. If a later version " +
				"wrote the folder, use that one. Else restore", Command: restoreCommand(s.Path)})
	}
	return newCheck("", looked)
}
