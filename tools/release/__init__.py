"""A release from one tag: the steps of .github/workflows/release.yml, and their rehearsal without a network.

python -m tools.release check TAG             report what disagrees with the tag
python -m tools.release notes TAG             print the notes, a section of CHANGELOG.md
python -m tools.release wheels FOLDER         build every wheel twice, compare the bytes, and write them
python -m tools.release deploy FOLDER IMAGE   write chart, manifests and bill of materials for an image by digest
python -m tools.release sums FOLDER           write SHA256SUMS
python -m tools.release dry-run [TAG]         all of these for the commit, in a temporary folder
"""
