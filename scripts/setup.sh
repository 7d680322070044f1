# Makes .venv and installs a requirements file into it; a second call installs nothing again. Source it: `. scripts/setup.sh FILE`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
requirements="${1:-requirements.txt}"
python="${PYTHON:-python3}"

if ! command -v "$python" > /dev/null; then
    echo "error: no $python found; install Python 3.10 or newer (Debian, Ubuntu: apt install python3 python3-venv)" >&2
    exit 2
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "error: $("$python" --version) is too old; Python 3.10 or newer is needed (or set PYTHON=python3.11)" >&2
    exit 2
fi
if [ ! -x .venv/bin/python ]; then
    echo "making .venv"
    "$python" -m venv .venv || { echo "error: no venv module (Debian, Ubuntu: apt install python3-venv)" >&2; exit 2; }
fi
stamp=".venv/installed-$(cat requirements*.txt | sha256sum | cut -c1-16)-$(basename "$requirements" .txt)"
if [ ! -f "$stamp" ]; then
    echo "installing $requirements (PyTorch is large: some minutes the first time)"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements"
    touch "$stamp"
fi
