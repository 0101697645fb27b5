"""Fill in a worksheet of rows to check: ``python examples/check_patients.py worksheet.csv``.

The program plays the doctor who examines the patients of the worksheet. It knows the truth, because
``make_patients.py`` simulated the patients.
"""

import sys

import pandas as pd

from make_patients import make_patients

if __name__ == "__main__":
    path = sys.argv[1]
    table, ill = make_patients()
    is_ill = dict(zip(table["patient"], ill, strict=True))
    worksheet = pd.read_csv(path)
    worksheet["checked"] = ["yes" if is_ill[patient] else "no" for patient in worksheet["patient"]]
    worksheet.to_csv(path, index=False)
    print(f"{path}: {len(worksheet)} patients are checked, {(worksheet['checked'] == 'yes').sum()} of them are ill.")
