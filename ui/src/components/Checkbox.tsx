import styles from "./Checkbox.module.css";

export interface CheckboxProps {
  label: string;
  checked: boolean;
  onValue: (checked: boolean) => void;
  disabled?: boolean;
}

export function Checkbox({ label, checked, onValue, disabled }: CheckboxProps) {
  return (
    <label className={styles.checkbox}>
      <input
        type="checkbox"
        checked={checked}
        disabled={disabled}
        onChange={(event) => onValue(event.target.checked)}
      />
      {label}
    </label>
  );
}
