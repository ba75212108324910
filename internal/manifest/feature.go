package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/internal/base"
)

// A feature is a named part of the formats that not every stoat knows. The
// manifest lists the features that a reader of the database must know, and those
// that it may ignore. A database gets a feature with its first use of it, in the
// same edit or an earlier one.
//
// A new feature needs a constant, and a place in knownFeatures.

// FeatureEncryption says that the files of the database are sealed. A database has it
// from its creation or never.
const FeatureEncryption = "encryption"

// FeatureIngest says that the database may have tables with a SeqShift. A database gets it
// with its first ingest.
const FeatureIngest = "ingest"

// knownFeatures are the required features that this version knows.
var knownFeatures = []string{FeatureEncryption, FeatureIngest}

const (
	// featureNameMax is the longest name of a feature in bytes.
	featureNameMax = 64
	// featuresMax is the largest number of required features, and of optional
	// ones, in a database.
	featuresMax = 64
)

func appendFeature(dst []byte, name string) []byte { return append(dst, name...) }

func decodeFeature(v []byte, offset int64) (string, error) {
	if err := checkFeature(string(v)); err != nil {
		return "", base.Corrupt(offset, "feature", err, "a valid name")
	}
	return string(v), nil
}

// checkFeature reports a name that no feature has.
func checkFeature(name string) error {
	if len(name) == 0 || len(name) > featureNameMax {
		return fmt.Errorf("manifest: a feature has a name of %d bytes, want 1 to %d", len(name), featureNameMax)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("manifest: a feature has the name %q, want printable ASCII without spaces", name)
	}
	return nil
}

// decodeFeatures decodes a list of features. Names ascend.
func decodeFeatures(v []byte, offset int64) ([]string, error) {
	names, err := decodeItems(v, offset, decodeFeature)
	if err != nil {
		return nil, err
	}
	if len(names) > featuresMax {
		return nil, base.Corrupt(offset, "number of features", len(names), fmt.Sprintf("at most %d", featuresMax))
	}
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			return nil, base.Corrupt(offset, "order of features", names[i], "after "+names[i-1])
		}
	}
	return names, nil
}

// checkKnown returns an error that names each required feature that this version
// does not know.
func checkKnown(required []string) error {
	var unknown []string
	for _, name := range required {
		if !slices.Contains(knownFeatures, name) {
			unknown = append(unknown, name)
		}
	}
	switch len(unknown) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: it uses the feature %q, which this version does not know", base.ErrVersion, unknown[0])
	}
	return fmt.Errorf("%w: it uses the features %q, which this version does not know", base.ErrVersion, unknown)
}

// checkShifts reports a table with a shift in a database that does not have the feature for it.
func checkShifts(features []string, added []*Table) error {
	for _, t := range added {
		if t.SeqShift > 0 && !slices.Contains(features, FeatureIngest) {
			return fmt.Errorf("manifest: table %d has a shift, without the feature %q", t.Num, FeatureIngest)
		}
	}
	return nil
}

// addFeatures returns the sorted union of two lists of features. It does not change
// them.
func addFeatures(have, more []string) ([]string, error) {
	if len(more) == 0 {
		return have, nil
	}
	union := slices.Concat(have, more)
	for _, name := range more {
		if err := checkFeature(name); err != nil {
			return nil, err
		}
	}
	slices.Sort(union)
	if union = slices.Compact(union); len(union) > featuresMax {
		return nil, fmt.Errorf("manifest: %d features, want at most %d", len(union), featuresMax)
	}
	return union, nil
}
